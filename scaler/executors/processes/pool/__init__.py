"""The processes of a node: the supervising pool, and the agent's ends of processors and fork server.

The slots ask the pool for further processors. No module of this package decides about tasks.
"""
