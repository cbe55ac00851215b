"""Schedulers and clusters as child processes: for a program that brings its own, and for the cluster in a client.

Users hold a `Scheduler`, a `Cluster` or both in a `SchedulerClusterCombo`; `child` is the main program of what they
start. Each child ends with its parent, by a lifeline. Never here: what a scheduler or an agent does.
"""
