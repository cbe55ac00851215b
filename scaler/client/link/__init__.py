"""The link to the scheduler: a thread, its connection, and the work that is open on it.

The core of a client hands entries to the link from any thread.

- `thread` owns the socket.
- `protocol` and the tables of open work are plain values, which the asyncio link uses too.
- `link` is the common part of both links.

The link reads no values of users: they are only bytes here.
"""
