"""Rerun: runs the call of a failed task again in the user's process, where a debugger can stop in it.

Used by futures and by failed rows of jobs; imported when the first call runs again. Each kind of call has a file, which
creates a `FailedCall`: `of_future` for futures, and `of_row` for rows of jobs. Both kinds share the call itself and the
text about differences.
"""
