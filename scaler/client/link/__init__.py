"""The link to the scheduler: a thread, its connection, and the work that is open on it.

Clients pass calls to the link from any thread; the link sees values of users only as bytes. `thread` owns the socket,
and `link` is the base of both links. The asyncio link also uses `protocol` and the tables of open work.
"""
