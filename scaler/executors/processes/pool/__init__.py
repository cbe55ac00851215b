"""The processes of a node: the pool that supervises them, the agent's end of each, and that of the fork server.

Called by the agent's dispatcher and loop; slots write to them. They decide nothing about tasks.
"""
