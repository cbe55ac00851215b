"""The scheduler as actors: one for every client, agent, worker, task, and for each thing that they share.

No module here knows a socket, a thread, an event loop or a clock: what comes in arrives as messages, what goes out is
put into the outbox.
"""
