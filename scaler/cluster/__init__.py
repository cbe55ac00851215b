"""Schedulers and clusters as child processes: for a program that starts its own, and for the local cluster of a client.

Users hold a `Scheduler`, a `Cluster`, or a `SchedulerClusterCombo`. Each child watches a lifeline, and ends with its
parent.
"""
