"""A grid of IBM Spectrum Symphony: the engine, in the engine host, and the service, which is deployed on the grid.

The message class of both is beside the service. Called by the engine host. The executor itself is in
`scaler.executors.engines.executor`. No module imports `soamapi` at import time, because only grids have it.
"""
