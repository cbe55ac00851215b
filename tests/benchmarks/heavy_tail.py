"""How long uneven work takes: tasks of one function whose durations are drawn from a heavy tail, on real workers.

The tasks sleep, so that more workers than cores tell something. Each list is run with balancing and without. Every
time is divided by the lower bound for any order: the work divided by the workers, or the longest task, by what the
tasks really took. Beside it, what was possible: longest first (LPT), for which one has to know the durations; and in
order, each task at the worker that is free first. The late line: all tasks are at one worker, others join.

    python tests/benchmarks/heavy_tail.py
"""

from __future__ import annotations

import argparse
import heapq
import random
import time
from collections.abc import Iterable, Sequence

from scaler import Client, Cluster, SchedulerClusterCombo

WORKERS = 8
LATE_TASKS, LATE_SECONDS = 8, 2.0


def two_lengths(seed: int) -> list[float]:
    """Nearly all short, and 2 % eighty times as long."""
    chance = random.Random(seed)
    return [0.4 if chance.random() < 0.02 else 0.005 for _ in range(4000)]


def pareto(seed: int) -> list[float]:
    """Of 4 to 400 ms, 11 ms on average."""
    chance = random.Random(seed)
    return [min(0.4, 0.004 * chance.paretovariate(1.5)) for _ in range(4000)]


def one_by_one(seconds: Iterable[float]) -> float:
    """Return when the last task ends if each goes to the worker that is free first, in their order."""
    ends = [0.0] * WORKERS
    for length in seconds:
        heapq.heapreplace(ends, ends[0] + length)
    return max(ends)


def bound(seconds: Sequence[float]) -> float:
    """Return the least that any order can take."""
    return max(*seconds, sum(seconds) / WORKERS)


def nap(seconds: float) -> float:
    """Sleep. Returns how long that took."""
    start = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - start


def measured(seconds: Sequence[float], load_balance_seconds: float) -> float:
    """Return how long the whole list takes, as a multiple of its bound."""
    with (
        SchedulerClusterCombo(WORKERS, load_balance_seconds=load_balance_seconds, logging_level="ERROR") as combo,
        Client(combo.get_address()) as client,
    ):
        client.map(time.sleep, [(0.1,)] * WORKERS * 2)  # all workers are there
        start = time.perf_counter()
        took = client.map(nap, [(length,) for length in seconds])
        return (time.perf_counter() - start) / bound(took)


def late(load_balance_seconds: float) -> float:
    """Return how long tasks take that were given to one worker, when seven others have been started after a second."""
    with (
        SchedulerClusterCombo(1, load_balance_seconds=load_balance_seconds, logging_level="ERROR") as combo,
        Client(combo.get_address()) as client,
    ):
        client.map(nap, [(0.0,)] * 500)  # so they are taken for short ones
        start = time.perf_counter()
        futures = [client.submit(nap, LATE_SECONDS) for _ in range(LATE_TASKS)]
        time.sleep(1)
        others = Cluster(combo.get_address(), n_workers=WORKERS - 1, logging_level="ERROR")
        others.start()
        for future in futures:
            future.result()
        others.shutdown()
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(f"| {'list':14} |   LPT | in order | balanced | without |")
    print("|----------------|------:|---------:|---------:|--------:|")
    for draw in (two_lengths, pareto):
        for seed in range(1, options.seeds + 1):
            seconds = draw(seed)
            lpt = one_by_one(sorted(seconds, reverse=True)) / bound(seconds)
            in_order = one_by_one(seconds) / bound(seconds)
            balanced, without = measured(seconds, 1), measured(seconds, 0)
            name = f"{draw.__name__} {seed}"
            print(f"| {name:14} | {lpt:5.3f} | {in_order:8.3f} | {balanced:8.3f} | {without:7.3f} |", flush=True)
    print(f"\nlate: {late(1):.1f} s balanced, {late(0):.1f} s without")


if __name__ == "__main__":
    main()
