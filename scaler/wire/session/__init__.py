"""What both ends of a session keep: numbered messages, acknowledgements, the lane of large items, transfers.

Edges, links and agents hold one pipe for each peer. Plain values without socket, thread or clock.
"""
