"""Prepares calls to be sent: functions, arguments, graphs.

The cores of both clients call this package. It checks what users wrote, so mistakes raise errors before anything is
sent. It has no threads, loops or sockets.
"""
