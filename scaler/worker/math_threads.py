"""The threads of BLAS and OpenMP in worker processes: the cores, divided by the workers.

Such libraries start a thread for each core, in each process: with a worker for each core that makes them several times
slower. What the user's environment says is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from scaler.cores import usable_cores

FOR_ALL = "OMP_NUM_THREADS"
"""Libraries that have a variable of their own obey this one as well, so whoever sets it has said it for all."""
VARIABLES = (FOR_ALL, "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def thread_limits(environment: Mapping[str, str], n_workers: int) -> dict[str, str]:
    """Return what to add to the environment of worker processes."""
    if FOR_ALL in environment:
        return {}
    threads = str(max(1, usable_cores() // n_workers))
    return {name: threads for name in VARIABLES if name not in environment}
