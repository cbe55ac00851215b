"""How a processor comes to be and ends: forked by the fork server, prepared, replaced at its limits, interrupted.

The agent runs `fork_server` as a program of its own; all else is called by that or by the processor. Never here: what
is done for one task.
"""
