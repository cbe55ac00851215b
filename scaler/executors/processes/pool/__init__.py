"""The processes of a node: the pool that supervises them, the agent's end of each, and that of the fork server.

Called by the agent's dispatcher and loop; slots send messages to the pool and to proxies. No module of this package
decides about tasks.
"""
