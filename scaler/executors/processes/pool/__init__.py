"""The processes of a node: the pool that supervises them, and the agent's ends of each processor and of the fork
server.

Called by the agent's dispatcher and loop; slots write to them. They decide nothing about tasks.
"""
