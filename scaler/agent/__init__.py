"""The node's side of the protocol: an agent that passes runs to an executor.

`agent` assembles the process, `edge` owns its socket, and the actor `link` exchanges messages with the scheduler.
Agent and executor communicate only by mail. No code here runs user code or depends on what runs a task.
"""
