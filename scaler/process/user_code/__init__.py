"""What the code and the modules of users do to the process that they run in, and what Scaler does about it.

Used by clients, worker processes and hosts of engines. Never here: what is done for one task.
"""
