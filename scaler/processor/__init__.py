"""The worker process that runs user code, the fork server, and the channel to the agent.

`processor` receives tasks from the agent, runs them one at a time in its main thread, and replies; `channel`, `uplink`
and `progress_page` are what it shares with the agent. `lifecycle` starts and ends the process, and `execution` is what
surrounds the call of a task's function. Not here: the decision which task runs where.
"""
