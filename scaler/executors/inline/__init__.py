"""Tasks in threads of the agent's own process: for tests and for debugging.

A `worker` passes its tasks to a runner: a `thread` here, an engine in `scaler.executors.engines`. The agent uses them
through `executor`. The threads cannot be stopped.
"""
