"""Serialises and reads values of users: functions, classes, modules; and finds the part that cannot be serialised.

Used by clients and processors. The scheduler and the agents see only frames of bytes.
"""
