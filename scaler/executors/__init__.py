"""The executors, which run the tasks of a node: a folder for each one, and the modules that they share.

`executor` and `messages` are the contract with the agent; `task_queue` and `supply` hold waiting tasks and requested
objects. `processes` runs tasks in processes of this machine, `inline` in threads of the agent, `engines` in other
engines, `symphony` on a grid. The agent loads one executor by its entry point and knows only the contract. No executor
knows the scheduler's protocol.
"""
