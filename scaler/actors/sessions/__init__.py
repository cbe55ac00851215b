"""One actor for each client and each agent, from its first hello until it leaves or stays silent for too long.

The acceptor starts them. A session starts actors for the work of its peer, and ends them with itself.
"""
