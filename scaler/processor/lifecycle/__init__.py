"""How a processor starts and ends: forked by the fork server, prepared, replaced at its limits, interrupted.

The agent runs `fork_server` as a separate program. The fork server and the processor call the other modules.
"""
