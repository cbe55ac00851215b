"""The executor of local processes: each worker is a slot, and each slot has processors.

`slot` decides what a worker's processors do and never sees a process. `pool` has the actors that own processes and the
channels to them. `messages` has the messages between the two. The agent uses them through `executor`. The code that
runs in such a process is in `scaler.processor`.
"""
