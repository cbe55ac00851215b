"""The user's view of tasks, workers and scheduler: explanations, logs, presence, the dashboard.

Called in the thread of the user, which waits briefly for an answer. Never submits a task or reads a result.
"""
