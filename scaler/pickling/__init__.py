"""Values of users to bytes and back: functions, classes, modules, and which part of a value cannot be written.

Clients and processors use it; scheduler and agent never do: to them functions, arguments and results are bytes.
"""
