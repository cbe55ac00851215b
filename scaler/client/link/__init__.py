"""The link to the scheduler: a thread, its connection, and the work that is open on it.

Clients pass calls to the link from any thread; the link sees values of users only as bytes. `thread` owns the socket of
a `Client`. `link` has the base class of the links of `Client` and `AsyncClient`. The link of an `AsyncClient` also uses
`protocol` and the tables of open work.
"""
