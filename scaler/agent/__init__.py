"""The node's side of the protocol: an agent that hands runs to an executor.

`agent` assembles the process, `edge` owns its socket, and the actor `link` speaks with the scheduler over one
connection after the other. Commands and clusters start it; an executor calls nothing here but by mail. Never here: user
code, or a word on what kind of process runs a task.
"""
