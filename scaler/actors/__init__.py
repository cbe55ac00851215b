"""The scheduler as actors: one for each client, agent, worker and task, and for each shared part.

`tree` starts them all, below one supervisor; the scheduler process calls it, and nobody else. No module here knows a
socket, a thread, an event loop or a clock: input arrives as messages, output goes into the outbox.
"""
