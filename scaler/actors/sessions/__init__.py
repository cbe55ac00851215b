"""One actor for each client and each agent, from its first hello until it leaves or stays silent for too long.

The acceptor starts the sessions. A session starts actors for the work of its peer. These actors end with the session.
"""
