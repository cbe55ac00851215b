"""The worker process that runs user code, the fork server, and the channel to the agent.

`processor` receives tasks from the agent, runs them one at a time in its main thread, and replies. The agent also uses
`channel` and `progress_page`. `lifecycle` starts and ends the process. `execution` surrounds the call of a function.
"""
