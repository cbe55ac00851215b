"""The client for asyncio: a face of a `Client`, whose thread holds the connection.

Users hold an `AsyncClient` and its futures, in one event loop. Calls are packed in the thread of the loop, as `Client`
packs them. Coroutines await what the thread of the connection completes, so none of them blocks the loop.
"""
