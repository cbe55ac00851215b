"""Protection of a process from the code and the modules of users that run in it.

Used by clients, worker processes and hosts of engines. What a processor does for a single task is in
`scaler.processor`.
"""
