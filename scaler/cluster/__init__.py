"""Schedulers and clusters as child processes: for a program that starts its own, and for the local cluster of a client.

Users hold a `Scheduler`, a `Cluster`, or both in a `SchedulerClusterCombo`. `child` is the main program of the child
processes. Each child ends with its parent, because it watches a lifeline.
"""
