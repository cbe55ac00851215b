"""The worker process that runs user code, the fork server, and the channel to the agent.

`processor` receives tasks from the agent, runs them one at a time in its main thread, and replies. The agent uses
`channel` and `progress_page`, too; `uplink` is the processor's end of the channel. `lifecycle` starts and ends the
process. `execution` is what surrounds the call of a task's function. Not here: the decision which task runs where.
"""
