"""A grid of IBM Spectrum Symphony: the `engine`, in the engine host, and the `service`, which is deployed on the grid.

No module imports `soamapi` at import time, because only grids have this package.
"""
