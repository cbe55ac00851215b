"""Answers to people about the scheduler: its peers and objects, and what a task has written.

No module here changes a task. What a task waits for is answered by the actor that has the task. The topics of monitors
are in `scaler.actors.monitor`.
"""
