"""The user's view of tasks, workers and scheduler: explanations, logs, presence, the dashboard.

Clients and futures call this package in the thread of the user, and wait briefly for an answer. It never submits a task
or reads a result.
"""
