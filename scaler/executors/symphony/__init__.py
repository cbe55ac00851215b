"""A grid of IBM Spectrum Symphony: the engine, in the engine host, and the service, which is deployed on the grid.

Called by the engine host. `service` has the message class that engine and service share. The executor is in
`scaler.executors.engines.executor`. No module imports `soamapi` at import time, because only grids have this package.
"""
