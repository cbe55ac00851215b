"""The node's side of the protocol: an agent that passes runs to an executor.

`agent` assembles the process, `edge` owns the socket of the process, and the actor `link` exchanges messages with the
scheduler over successive connections. Commands and clusters start an agent. Agent and executor communicate only by
mail. No code of this package runs user code or depends on the kind of process that runs a task.
"""
