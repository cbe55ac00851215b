"""The processes of a node: the supervising pool, and the agent's proxies of processors and of the fork server.

The slots ask the pool for further processors. No module of this package decides about tasks.
"""
