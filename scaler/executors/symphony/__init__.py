"""A grid of IBM Spectrum Symphony: the engine, in the engine host, and the service, which is deployed on the grid.

The message of both is beside the service. Called by the engine host; the executor itself is in
`scaler.executors.engines.executor`. Never here: a word of `soamapi` at import, which only grids have.
"""
