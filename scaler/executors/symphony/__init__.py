"""A grid of IBM Spectrum Symphony: the `engine`, in the engine host, and the `service`, which is deployed on the grid.

The engine host calls the engine. No module imports `soamapi` at import time, because only grids have this package.
"""
