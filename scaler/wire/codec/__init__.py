"""Items to bytes and back: the Cap'n Proto codec, its columns, and the stencils of small messages.

Used by the sessions, and to read single messages. This package checks all input from outside.
"""
