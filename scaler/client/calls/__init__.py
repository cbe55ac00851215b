"""Makes calls ready to be sent: functions, arguments, graphs.

The cores of both clients call it, and hand what it makes to their links. It checks what users wrote, so errors of
theirs are raised here, before anything is sent. Never here: threads, loops or sockets.
"""
