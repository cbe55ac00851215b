"""The model of a cluster: what viewers know of it, rates, which workers look stuck, and what limits the cluster.

Viewers pass it the messages that they receive, and read its fields when they draw. Callers pass the time.
"""
