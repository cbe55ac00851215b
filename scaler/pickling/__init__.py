"""Values of users to bytes and back: functions, classes, modules, and which part of a value cannot be written.

Clients and processors pickle with it. To scheduler and agent functions, arguments and results are frames of bytes,
which they only count. Never here: messages.
"""
