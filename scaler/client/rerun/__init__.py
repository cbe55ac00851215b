"""Rerun: runs the call of a failed task again in the user's process, where a debugger can stop in it.

Used by futures and by failed rows of jobs; imported when the first call runs again. Each source of calls has a file,
which creates a `FailedCall`. The call itself, and the text about differences, are the same for all.
"""
