"""The client for asyncio: the same protocol, driven by an event loop instead of a thread.

Users hold an `AsyncClient` and its futures, in one event loop. It shares calls, protocol and tables with the client of
threads. Never here: a lock, or anything that blocks the loop.
"""
