"""Peers: hellos, the directory of peers, the names of workers, the accounts of clients, and the outbox."""
