"""Jobs on disk: the files with which a job survives the end of programs, schedulers and machines.

Called by the scheduler, through its clerk, and by `scaler_jobs --file`. What never belongs here: an actor, a socket, or
anything that unpickles. docs/reference/jobs.md describes the files.
"""
