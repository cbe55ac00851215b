"""Rerun: runs the call of a failed task again in the user's process, where a debugger can stop in it.

Used by futures and by failed rows of jobs; imported at the first rerun. The module `of_future` creates a `FailedCall`
from a future, and `of_row` from a row of a job. Both use the same modules for the call itself and for the text about
differences.
"""
