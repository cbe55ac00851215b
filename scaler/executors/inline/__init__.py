"""Tasks in threads of the agent's own process, for tests and for debugging.

A `worker` submits its tasks to a `thread`. The agent calls the `executor`. The threads cannot be stopped.
"""
