"""Tasks in threads of the agent's own process: for tests and for debugging.

A `worker` passes its tasks to a runner: a `thread` of this package, or an engine of `scaler.executors.engines`.
`executor` has the executor that the agent loads. The threads cannot be stopped.
"""
