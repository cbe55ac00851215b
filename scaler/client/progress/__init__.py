"""Progress for people: on a terminal, in a notebook, in a log.

`map(progress=True)` and `scaler.progress` use it in the thread of the user. It only observes tasks.
"""
