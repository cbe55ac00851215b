"""Prepares calls to be sent: functions, arguments, graphs.

The cores of both clients call it, and pass its results to their links. It checks what users wrote, so mistakes raise
errors here, before anything is sent. It has no threads, loops or sockets.
"""
