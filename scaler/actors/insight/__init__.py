"""What people ask of the scheduler: who is there, why a task waits, what it has written, and what has happened.

Nothing here changes a task. What viewers subscribe to is in `scaler.actors.monitor`.
"""
