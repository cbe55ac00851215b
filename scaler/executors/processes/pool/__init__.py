"""The processes of a node: the pool that supervises them, and the agent's ends of processors and fork server.

Called by the agent's dispatcher and loop; slots send messages to the pool and to proxies. No module of this package
decides about tasks.
"""
