"""The node's side of the protocol: an agent that passes runs to an executor.

`agent` assembles the process, `edge` owns its socket, and the actor `link` exchanges messages with the scheduler over
successive connections. Commands and clusters start an agent. An executor reaches it by mail only. No code here runs
user code or depends on the kind of process that runs a task.
"""
