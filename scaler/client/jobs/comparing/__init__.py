"""Comparison: digests of rows and functions that are equal in each process for equal values.

Called where a job is opened. Nothing is sent to the scheduler.
"""
