"""The scheduler as actors: one for each client, agent, worker and task, and for each shared part.

The scheduler process calls `tree`, which starts all actors below one supervisor. No module here knows a socket, a
thread, an event loop or a clock. Input arrives as messages, and output goes into the outbox.
"""
