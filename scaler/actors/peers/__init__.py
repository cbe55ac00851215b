"""Who is connected: hellos, the directory of peers, the names of workers, the accounts of clients, and the door out.

The edge hands hellos in, and every actor speaks to its peer through here. What a peer wants belongs to its session.
"""
