"""Jobs in the scheduler: work that belongs to no connection. Each is an actor that says its rows to tasks as the
session of a client does, and tells nobody of a result before the clerk has it on disk (`scaler.jobs`). If another
program has a job open, a reader takes the place of its actor.

Client sessions hand on what their clients ask. Never here: a file, a thread, or a value that is read.
"""
