"""Jobs on disk: the files with which a job survives the end of programs, schedulers and machines.

Called by the scheduler, through its job writer, and by `scaler_jobs --file`. No module here has an actor or a socket,
or unpickles a value. docs/reference/jobs.md describes the files.
"""
