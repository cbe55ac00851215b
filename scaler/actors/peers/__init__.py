"""Peers: hellos, the directory of peers, the names of workers, the accounts of clients, and the outbox.

The edge passes hellos to the acceptor, and actors send to peers through the outbox. Sessions handle requests of peers.
"""
