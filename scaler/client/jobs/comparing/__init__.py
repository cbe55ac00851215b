"""Comparison: digests of rows and functions. Equal values have equal digests, in every process.

Called where a job is opened. Nothing is sent to the scheduler.
"""
