"""The client for asyncio: the same conversation, driven by an event loop in the place of a thread."""
