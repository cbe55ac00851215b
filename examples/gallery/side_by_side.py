"""Side by side: the same work in this process and on a local cluster, with the speed-up and its limit."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import TypeVar

import psutil

from scaler import Client, SchedulerClusterCombo

T = TypeVar("T")

OTHERS_MOST = 0.1
"""The share of the machine that other programs may use; above it, the times mean little."""


def arguments(description: str, size: int, what: str) -> argparse.Namespace:
    """Read the options of all programs of the gallery: the amount of work, and the number of workers."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("size", type=int, nargs="?", default=size, help=f"{what} (default: {size})")
    parser.add_argument("-n", "--workers", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    return parser.parse_args()


def side_by_side(
    alone: Callable[[], T], together: Callable[[Client], T], workers: int, preload: tuple[str, ...] = ()
) -> tuple[T, str]:
    """Do the work twice, and check that both results are the same.

    Args:
        alone: does the work in this process.
        together: does the work with a client of a cluster on this machine.
        workers: the number of workers of the cluster.
        preload: modules that the cluster imports once for all its processes.

    Returns:
        the result, and one line with the speed-up of the cluster and its limit.

    Raises:
        AssertionError: if the results differ.
    """
    with (
        SchedulerClusterCombo(n_workers=workers, preload=preload, logging_level="WARNING") as cluster,
        Client(cluster.get_address()) as client,
    ):
        client.wait_for_workers(workers)
        os.environ["SCALER_ADDRESS"] = cluster.get_address()  # for programs that make another client
        client.map(abs, [(-1,)] * 10 * workers)  # starts the processes, which the times below leave out
        print(f"with {workers} workers ...", flush=True)
        used, all_used, start = _processor_seconds(), _machine_seconds(), time.perf_counter()
        result = together(client)
        seconds, used, all_used = (
            time.perf_counter() - start,
            _processor_seconds() - used,
            _machine_seconds() - all_used,
        )
    print("once more in this process, to compare ...", flush=True)
    used_alone, start = time.process_time(), time.perf_counter()
    expected = alone()
    seconds_alone, used_alone = time.perf_counter() - start, time.process_time() - used_alone
    assert result == expected, f"the cluster gave {result}, this process {expected}"

    cores = min(workers, os.cpu_count() or 1)
    busy = min(used / seconds / cores, 1)
    others = (all_used - used) / seconds / (os.cpu_count() or 1)
    verdict = (
        f"{seconds_alone / seconds:.2f} times as fast with {workers} workers ({seconds:.2f} s) as in this process "
        f"({seconds_alone:.2f} s); {cores} cores could give {cores}; the work took {_more(used / used_alone)} "
        f"processor time there (imports, sending, shared caches), and kept the cores busy for {busy:.0%} of the time"
    )
    if others > OTHERS_MOST:
        verdict += f"; other programs used {others:.0%} of this machine, so measure again when it is quiet"
    return result, verdict


def _more(ratio: float) -> str:
    return f"{ratio - 1:.0%} more" if ratio >= 1 else f"{1 - ratio:.0%} less"


def _machine_seconds() -> float:
    """Return the processor time that all programs of this machine have used until now."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _processor_seconds() -> float:
    """Return the processor time that this process and those of its cluster have used until now."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(spent.user + spent.system for spent in times)
