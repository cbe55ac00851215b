"""The link to the scheduler: a thread, its connection, and the work that is open on it."""
