"""The client for asyncio: the same protocol, driven by an event loop instead of a thread.

Users hold an `AsyncClient` and its futures, in one event loop. It shares calls, protocol and tables with the client of
threads. Nothing in it blocks the loop.
"""
