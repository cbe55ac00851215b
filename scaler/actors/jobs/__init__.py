"""Jobs in the scheduler, which outlive the connections of their clients.

Each is an actor that submits its rows as tasks, and reports a result only after the clerk has written it to disk
(`scaler.jobs`). If another program has a job open, a reader takes the place of its actor.

Client sessions hand on what their clients ask. Never here: a file, a thread, or a value that is read.
"""
