"""The link to the scheduler: a thread, its connection, and the work that is open on it.

Clients hand entries to the link from any thread; values of users are only bytes here. `thread` owns the socket.
`protocol` and the tables of open work are plain values, which the asyncio link uses too. `link` is the common part of
both links.
"""
