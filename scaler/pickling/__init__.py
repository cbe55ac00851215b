"""Values of users to bytes and back: functions, classes, modules, and which part of a value cannot be written.

Used by clients and processors. To scheduler and agent, all of these are only frames of bytes. Not here: messages.
"""
