"""Executors that pass tasks to a foreign engine: any `concurrent.futures.Executor`, Dask, Ray, or a grid.

The agent has one actor for each slot (`worker`) and one for the engine host (`host_proxy`). The engine host (`host`) is
a process of the node. It holds the engine (`engine`, `dask`, `ray`), so that the agent runs no foreign code. A task
runs as a `call` in a process that the engine chooses.
"""
