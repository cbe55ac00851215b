"""Values: what results, arguments and echoes of one size cost, as processor time of all processes, beside other pools.

python -m tests.benchmarks.values                        64 kB, 1 MB, 4 MB, 100 MB, the best of three
python -m tests.benchmarks.values --sizes 4000000 --peers scaler pool

Each figure is the processor time of one call, of the program and all processes below it, for bytes (zeros that have no
memory when they are returned, and some that were written) and, where numpy is installed, for arrays. In brackets: how
many copies of the value to new memory take as long, whose pages the system has to give first: who receives a value
cannot do with less than one. The last column is a copy to memory that is there.
"""

from __future__ import annotations

import argparse
import mmap
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import psutil

WORKERS = 2
Run: TypeAlias = Callable[[Callable[..., Any], Sequence[Any]], None]


def made_bytes(size: int) -> bytes:
    return bytes(size)


def made_written_bytes(size: int) -> bytes:
    return b"x" * size


def made_array(size: int) -> Any:
    import numpy as np

    return np.ones(size, dtype=np.uint8)


def taken(value: Any) -> int:
    return len(value)


def echoed(value: Any) -> Any:
    return value


@contextmanager
def scaler() -> Iterator[Run]:
    from scaler import Client, SchedulerClusterCombo

    combo = SchedulerClusterCombo(n_workers=WORKERS, logging_level="ERROR")
    try:
        with Client(combo.get_address()) as client:

            def run(function: Callable[..., Any], values: Sequence[Any]) -> None:
                futures = [client.submit(function, value) for value in values]
                wait(futures)
                for future in futures:
                    future.result()

            yield run
    finally:
        combo.shutdown()


@contextmanager
def pool() -> Iterator[Run]:
    with get_context("spawn").Pool(WORKERS) as workers:
        yield lambda function, values: [None for _ in workers.map(function, values, chunksize=1)] and None


@contextmanager
def joblib() -> Iterator[Run]:
    from joblib import Parallel, delayed

    with Parallel(n_jobs=WORKERS) as parallel:
        yield lambda function, values: parallel(delayed(function)(value) for value in values) and None


@contextmanager
def dask() -> Iterator[Run]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def run(function: Callable[..., Any], values: Sequence[Any]) -> None:
            client.gather([client.submit(function, value, pure=False) for value in values])

        yield run


@contextmanager
def ray() -> Iterator[Run]:
    import logging

    import ray as of_ray

    of_ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)
    try:

        def run(function: Callable[..., Any], values: Sequence[Any]) -> None:
            remote = of_ray.remote(function)
            of_ray.get([remote.remote(value) for value in values])

        yield run
    finally:
        of_ray.shutdown()


PEERS: dict[str, Callable[[], Any]] = {"scaler": scaler, "pool": pool, "joblib": joblib, "dask": dask, "ray": ray}


def processor_seconds() -> float:
    """Return what this process and those below it have used, to the nanosecond."""
    me = psutil.Process()
    processes = (me, *me.children(recursive=True))
    threads = (path for process in processes for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e9


def copy_seconds(size: int) -> float:
    """Return the processor time of one copy of so many bytes to memory that was used before."""
    source, target = memoryview(b"x" * size), memoryview(bytearray(size))  # zeros would be one page again and again
    times = max(3, 200_000_000 // size)
    target[:] = source
    began = time.process_time()
    for _ in range(times):
        target[:] = source
    return (time.process_time() - began) / times


def new_copy_seconds(size: int) -> float:
    """Return the processor time of one copy of so many bytes to memory that the system has to give first."""
    source, times = b"x" * size, max(3, 200_000_000 // size)
    seconds = 0.0
    for _ in range(times):
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as target:
            began = time.process_time()
            target[:] = source
            seconds += time.process_time() - began
    return seconds / times


def cost(run: Run, function: Callable[..., Any], values: Sequence[Any], repeats: int) -> float:
    """Return the processor time of one call: the least of several attempts."""
    seconds = []
    for _ in range(repeats):
        began = processor_seconds()
        run(function, values)
        seconds.append((processor_seconds() - began) / len(values))
    return min(seconds)


def kinds() -> dict[str, Callable[[int], Any]]:
    makers = {"bytes": made_bytes, "written bytes": made_written_bytes}
    with suppress(ImportError):
        import numpy as np

        makers[f"array (numpy {np.__version__})"] = made_array
    return makers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64_000, 1_000_000, 4_000_000, 100_000_000])
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        f"# {WORKERS} workers, {os.cpu_count()} cores; ms of processor time for one call, and how many copies that is\n"
    )
    print("| peer | value | bytes | result | argument | echo | a copy to new memory | to old |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.peers:
        try:
            with PEERS[name]() as run:
                run(taken, [b""] * 10)
                for kind, make in kinds().items():
                    for size in options.sizes:
                        _row(name, run, kind, make, size, options.repeats)
        except ImportError:
            print(f"| {name} | not installed | | | | | | |")


def _row(name: str, run: Run, kind: str, make: Callable[[int], Any], size: int, repeats: int) -> None:
    count = max(2, min(40, 40_000_000 // size))
    values, one = [make(size) for _ in range(count)], new_copy_seconds(size)
    seconds = (
        cost(run, make, [size] * count, repeats),
        cost(run, taken, values, repeats),
        cost(run, echoed, values, repeats),
    )
    cells = " | ".join(f"{each * 1e3:.2f} ({each / one:.1f})" for each in seconds)
    print(f"| {name} | {kind} | {size:,} | {cells} | {one * 1e3:.2f} | {copy_seconds(size) * 1e3:.2f} |", flush=True)


if __name__ == "__main__":
    main()
