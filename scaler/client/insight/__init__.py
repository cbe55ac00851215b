"""What users see of their tasks, their workers and their scheduler: explanations, logs, presence, the dashboard.

Clients and futures call it, in the thread of the user, which waits for an answer for a moment. It never sends a task or
reads a result.
"""
