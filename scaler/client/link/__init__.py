"""The link to the scheduler: a thread, its connection, and the work that is open on it.

Clients hand entries to the link from any thread; values of users are only bytes here. `thread` owns the socket, and
`link` is the base of both links. The asyncio link also uses `protocol` and the tables of open work.
"""
