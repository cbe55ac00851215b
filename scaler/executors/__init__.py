"""The executors, which run the tasks of a node: a folder for each one, and the modules that they share.

`executor` and `messages` are the contract with the agent, which loads one executor by its entry point. `processes` runs
tasks in processes of this machine, `inline` in threads of the agent, `engines` in other engines, `symphony` on a grid.
No executor knows the scheduler's protocol.
"""
