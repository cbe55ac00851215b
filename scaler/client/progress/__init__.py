"""Progress for people: on a terminal, in a notebook, in a log.

Used by `map(progress=True)` and `scaler.progress` in the thread of the user. It only observes tasks.
"""
