"""One actor for each client and each agent, from its first hello until it leaves or stays silent for too long.

The acceptor starts them. They make actors of what their peer says, and end these with themselves. They decide nothing.
"""
