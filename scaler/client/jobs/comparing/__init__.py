"""Comparison: digests of rows and functions that are equal in each process for equal values.

Called where a job is opened. What never belongs here: a request to the scheduler.
"""
