"""Jobs in the scheduler, which outlive the connections of their clients.

Each job is an actor that submits its rows as tasks. It reports a result only after the job writer has written it to
disk (`scaler.jobs`). If another program has a job open, a reader takes the place of this actor. Client sessions forward
the requests of their clients. No module here opens a file, starts a thread or unpickles a value.
"""
