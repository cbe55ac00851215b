"""Both ends of a session: numbered messages, acknowledgements, the lane of large items, transfers.

Edges, links and agents have one pipe for each peer. The classes of this package have no socket, thread or clock.
"""
