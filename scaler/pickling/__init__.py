"""Values of users to bytes and back: functions, classes, modules; and the part of a value that cannot be serialised.

Used by clients and processors. The scheduler and the agents see only frames of bytes.
"""
