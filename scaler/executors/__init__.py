"""What runs the tasks of a node: a folder for each executor, and beside them what they share.

Here are the contract with the agent (`executor`, `messages`) and what tasks wait in and for. `processes` are those of
this machine, `inline` threads of the agent, `engines` foreign ones, `symphony` a grid. The agent loads one of them by
its entry point and knows only the contract. Never here: a word of the protocol with the scheduler.
"""
