"""The model of a cluster: what viewers know of it, rates, what looks stuck, and what holds it back.

Viewers hand it what they hear and read its fields when they draw. It is told what time it is. Never here: a socket, or
how anything is shown.
"""
