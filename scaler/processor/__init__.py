"""The worker process that runs user code, the fork server, and the channel to the agent.

The fork server forks `processor`s, and agents speak with them over `channel`s. A processor runs one task at a time, in
its main thread. Never here: a decision about which task runs where.
"""
