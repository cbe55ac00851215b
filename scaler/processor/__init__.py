"""The worker process that runs user code, the fork server, and the channel to the agent.

`processor` takes tasks from the agent, runs them one at a time in its main thread, and answers; `channel`, `uplink` and
`progress_page` are what it shares with the agent. `lifecycle` makes and ends the process, `execution` is what surrounds
the call of a task's function. Agents start the fork server and speak with processors over channels. Never here: a
decision about which task runs where.
"""
