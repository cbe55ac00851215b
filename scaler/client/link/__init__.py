"""The way to the scheduler: the thread with the connection, and what is open on it."""
