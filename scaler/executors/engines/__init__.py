"""Executors that pass tasks to an engine of another kind: any `concurrent.futures.Executor`, or a grid.

The agent has a `worker` for each slot, and a `host_proxy` for the `host`. The host, a process of the node, holds the
engine (`engine`, `dask`, `ray`), so that the agent runs no foreign code. A `call` runs where the engine runs it.
"""
