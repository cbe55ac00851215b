"""Values of users to bytes and back: functions, classes, modules, and which part of a value cannot be written.

Used by clients and processors. The scheduler and the agents see only frames of bytes.
"""
