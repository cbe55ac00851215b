"""The executor of local processes: each worker is a slot, and each slot has processors.

`slot` decides what a worker's processors do and never sees a process. `pool` has the actors that own processes and
their channels. The code that runs in a processor is in `scaler.processor`.
"""
