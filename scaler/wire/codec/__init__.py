"""Codec: turns items into bytes and back, with Cap'n Proto, columns, and stencils for small messages.

Used by the sessions, and to read single messages. This package checks all input from outside.
"""
