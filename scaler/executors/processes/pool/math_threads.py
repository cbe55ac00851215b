"""MathThreads: limits the threads of BLAS and OpenMP in worker processes to the cores divided by the workers.

Such libraries start a thread for each core in each process. With a worker per core, that makes them several times
slower. Variables that the user has set stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from scaler.cores import usable_cores

FOR_ALL = "OMP_NUM_THREADS"
"""Libraries with their own variable obey this one as well, so a user who sets it sets all."""
VARIABLES = (FOR_ALL, "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def thread_limits(environment: Mapping[str, str], n_workers: int) -> dict[str, str]:
    """Return the variables to add to the environment of worker processes."""
    if FOR_ALL in environment:
        return {}
    threads = str(max(1, usable_cores() // n_workers))
    return {name: threads for name in VARIABLES if name not in environment}
