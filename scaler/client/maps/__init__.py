"""Maps: from the items that the user passes to the results that the user reads.

`RowSource` draws the items, and passes their rows to the link. `MapRun` reads the results, and says when to draw and
when to wait. Its caller waits: a thread in `MapRun.wait`, a coroutine of the asyncio client in its own way.
"""
