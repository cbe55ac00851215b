"""Turns values of users into bytes and back: functions, classes, modules. Names the part of a value that cannot be
serialised.

Used by clients and processors. The scheduler and the agents see only frames of bytes.
"""
