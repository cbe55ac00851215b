"""One actor for each client and each agent, from its first hello until it leaves or stays silent for too long.

The acceptor starts the sessions. The actors that a session starts for its peer end with the session.
"""
