"""How much of two cores small tasks get: 600 calls of 1, 10 and 100 ms, and of 1 ms of numpy, beside other pools.

The work is fixed: loops whose number is found once, before all. Efficiency is the time that the calls take one after
the other in this process, divided by the workers and by the time that the pool took. Each pool is started, warmed up,
timed and ended in turn, with chunks of one call; systems that are not installed are left out.

    python tests/benchmarks/efficiency.py                            all systems, medians of ten rounds: some 40 minutes
    python tests/benchmarks/efficiency.py --rounds 3 --systems scaler pool loky --kinds "1 ms" "10 ms"
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each worker, for all systems, and here

from scaler import Client

WORKERS = 2
TASKS = 600
KINDS = {"1 ms": 0.001, "10 ms": 0.01, "100 ms": 0.1, "1 ms of numpy": 0.001}
Work = Callable[[int], Any]
Runner = Callable[[Work, int, int], object]
"""calls a function so many times with the same argument, and waits for all"""


def count(loops: int) -> int:
    """Work in plain Python."""
    total = 0
    for number in range(loops):
        total += number & 7
    return total


def multiply(loops: int) -> float:
    """Work in numpy."""
    import numpy as np

    matrix = np.full((64, 64), 0.5)
    for _ in range(loops):
        matrix = (matrix @ matrix) / 32
    return float(matrix[0, 0])


@contextlib.contextmanager
def scaler() -> Iterator[Runner]:
    with Client(n_workers=WORKERS) as client:
        yield lambda work, loops, calls: client.map(work, [(loops,)] * calls)


@contextlib.contextmanager
def pool() -> Iterator[Runner]:
    with multiprocessing.get_context("forkserver").Pool(WORKERS) as processes:
        yield lambda work, loops, calls: processes.map(work, [loops] * calls, chunksize=1)


@contextlib.contextmanager
def loky() -> Iterator[Runner]:
    from joblib.externals.loky import get_reusable_executor

    executor = get_reusable_executor(WORKERS)
    yield lambda work, loops, calls: list(executor.map(work, [loops] * calls, chunksize=1))
    executor.shutdown(wait=True)


@contextlib.contextmanager
def dask() -> Iterator[Runner]:
    from distributed import Client as DaskClient

    with DaskClient(
        n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
    ) as client:
        yield lambda work, loops, calls: client.gather(client.map(work, [loops] * calls, pure=False))


@contextlib.contextmanager
def ray() -> Iterator[Runner]:
    import ray as of_ray

    def run(work: Work, loops: int, calls: int) -> object:
        remote = of_ray.remote(work)
        return of_ray.get([remote.remote(loops) for _ in range(calls)])

    of_ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)
    try:
        yield run
    finally:
        of_ray.shutdown()


SYSTEMS = {"scaler": scaler, "pool": pool, "loky": loky, "dask": dask, "ray": ray}
NEEDS = {"loky": "joblib", "dask": "distributed", "ray": "ray"}


def seconds_of(program: Callable[[], object]) -> float:
    start = time.perf_counter()
    program()
    return time.perf_counter() - start


def calibrated(work: Work, seconds: float) -> int:
    """Return how many loops take so long."""
    loops = 1
    while (took := min(seconds_of(partial(work, loops)) for _ in range(5))) < seconds / 2:
        loops *= 2
    return max(1, round(loops * seconds / took))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    there = [name for name in options.systems if importlib.util.find_spec(NEEDS.get(name, "scaler")) is not None]
    works = {kind: multiply if "numpy" in kind else count for kind in options.kinds}
    loops = {kind: calibrated(works[kind], KINDS[kind]) for kind in options.kinds}
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(options.rounds):
        alone = {
            kind: statistics.median(seconds_of(partial(works[kind], loops[kind])) for _ in range(50)) for kind in loops
        }
        for name in there if number % 2 else reversed(there):
            with SYSTEMS[name]() as run:
                for kind, work in works.items():
                    run(work, loops[kind], 50)
                    took = seconds_of(partial(run, work, loops[kind], TASKS))
                    found.setdefault((name, kind), []).append(TASKS * alone[kind] / WORKERS / took)
    print(f"| efficiency, {TASKS} calls, {WORKERS} workers | " + " | ".join(loops) + " |")
    print("|---|" + "--:|" * len(loops))
    for name in there:
        cells = []
        for kind in loops:
            values = found[name, kind]
            cells.append(f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
