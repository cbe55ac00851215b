"""Load: how busy the cluster is, what limits it, and how long the open tasks will take.

The monitor calls `diagnosis` once a second. Viewers receive the result, and compute none of this, so they all agree.
"""
