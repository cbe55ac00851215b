"""The model of a cluster: the state that viewers know, rates, workers that look stuck, and what limits the cluster.

Viewers pass each message to the model, with the time of its receipt. When they draw, they read the fields of the model.
"""
