"""How a peer that dials keeps its conversation with a scheduler going: one table for clients and agents.

`states` is that table, and `conversation_state` walks it. Links and agents tell it what has come and what time it is,
and do what it says. Never here: a socket, a thread or a clock.
"""
