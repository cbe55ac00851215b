"""The model of a cluster: the state that viewers know, rates, workers that look stuck, and what limits the cluster.

Viewers pass it each message, with the time of its receipt. When they draw, they read its fields.
"""
