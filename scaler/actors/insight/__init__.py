"""Answers to people about the scheduler: its peers, why a task waits, what a task has written, and what has happened.

No module here changes a task. The topics of monitors are in `scaler.actors.monitor`.
"""
