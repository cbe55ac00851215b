"""The executor of local processes: each worker is a slot, and each slot has processors.

`slot` decides what a worker's processors do and never sees a process; `pool` has the actors that own processes and the
channels to them; `messages` is what the two say to each other. Called by the agent, through `executor`. What runs in
such a process is in `scaler.processor`. Never here: the code of a task.
"""
