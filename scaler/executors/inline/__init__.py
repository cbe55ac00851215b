"""Tasks in threads of the agent's own process: for tests and for debugging.

A `worker` gives its tasks to what runs them: a `thread` here, an engine in `scaler.executors.engines`. Called by the
agent, through `executor`. Never here: a way to end a thread, for there is none.
"""
