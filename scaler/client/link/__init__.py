"""The link to the scheduler: a thread, its connection, and the work that is open on it.

The core of a client hands it entries from any thread; `thread` owns the socket, and `protocol` and the tables beside it
are plain values. The link for asyncio drives these, too, and `link` is what both have in common. Never here: the values
of users, which it sees as bytes.
"""
