"""How much of two cores small tasks get: 600 calls of 1, 10 and 100 ms, and of 1 ms of numpy, beside other pools.

The work is fixed: loops whose number is found once, before all. Efficiency is the time that the calls take one after
the other in one process, divided by the workers and by the time that the pool took. Each pool is started, warmed up,
timed and ended in turn, in a process of its own, with chunks of one call: ten rounds, of which two have the calls of
100 ms. A round that would not end in time is not begun. Systems that are not installed are left out; one that fails or
hangs is said, and the table has the others. Progress goes to standard error, the table to standard output.

    python tests/benchmarks/efficiency.py                            all systems, at most 12 minutes
    python tests/benchmarks/efficiency.py --rounds 3 --systems scaler pool loky --kinds "1 ms" "10 ms"
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import logging
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each worker, for all systems, and here

from scaler import Client

WORKERS = 2
TASKS = 600
KINDS = {"1 ms": 0.001, "10 ms": 0.01, "100 ms": 0.1, "1 ms of numpy": 0.001}
LONG_ROUNDS = 2
"""in how many rounds calls of 100 ms are timed: they take nine tenths of a round, and vary least"""
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

    of_ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)
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


def work_of(kind: str) -> Work:
    return multiply if "numpy" in kind else count


def alone(kind: str, loops: int) -> float:
    """Return how long one call takes here, with nothing beside it."""
    calls = max(5, round(0.2 / KINDS[kind]))
    return statistics.median(seconds_of(partial(work_of(kind), loops)) for _ in range(calls))


def time_one(name: str, loops: dict[str, int]) -> None:
    """Time one system, in the process that was started for it: a line of JSON for each kind, as soon as it is known."""
    with SYSTEMS[name]() as run:
        for kind, number in loops.items():
            run(work_of(kind), number, max(WORKERS, min(50, round(0.5 / KINDS[kind]))))
            took = seconds_of(partial(run, work_of(kind), number, TASKS))
            print(json.dumps([kind, took]), flush=True)


def timed_elsewhere(name: str, loops: dict[str, int], patience: float) -> tuple[dict[str, float], str]:
    """Return the seconds of each kind for one system, timed in a fresh process; and what went wrong, or nothing."""
    command = [sys.executable, __file__, "--one", name, json.dumps(loops)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True)
        try:
            code = child.wait(patience)
            problem = f"it ended with code {code}" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"it had not ended after {patience:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):  # also after it has ended: what it may have left
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        errors.seek(0)
        said = [line for line in errors.read().splitlines() if line.strip()]
        lines = [line for line in output.read().splitlines() if line.startswith("[")]
    if problem and said:
        problem += f": {said[-1]}"
    return dict(json.loads(line) for line in lines), problem


class Table:
    """The efficiencies found so far, and what failed."""

    def __init__(self, systems: list[str], kinds: list[str]) -> None:
        self._found: dict[tuple[str, str], list[float]] = {(name, kind): [] for name in systems for kind in kinds}
        self._systems, self._kinds = systems, kinds
        self._problems: dict[str, list[str]] = {name: [] for name in systems}

    def is_given_up(self, name: str) -> bool:
        """Return whether a system failed so often that it is not tried any more."""
        return len(self._problems[name]) > 1

    def add(self, name: str, efficiencies: dict[str, float], problem: str) -> None:
        for kind, value in efficiencies.items():
            self._found[name, kind].append(value)
        if problem:
            self._problems[name].append(problem)

    def show(self) -> None:
        print(f"| efficiency, {TASKS} calls, {WORKERS} workers | " + " | ".join(self._kinds) + " |")
        print("|---|" + "--:|" * len(self._kinds))
        for name in self._systems:
            print(f"| {name} | " + " | ".join(self._cell(name, kind) for kind in self._kinds) + " |")
        rounds = {kind: max(len(self._found[name, kind]) for name in self._systems) for kind in self._kinds}
        print("\nRounds: " + ", ".join(f"{number} of {kind}" for kind, number in rounds.items()))
        for name, problems in self._problems.items():
            for problem in problems:
                print(f"{name} failed: {problem}")

    def _cell(self, name: str, kind: str) -> str:
        values = self._found[name, kind]
        return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})" if values else "-"


def measure(table: Table, systems: list[str], loops: dict[str, int], rounds: int, seconds: float) -> None:
    """Fill the table, round by round, for as long as there is time."""
    start, longest = time.monotonic(), 0.0
    for number in range(rounds):
        kinds = {kind: loops[kind] for kind in loops if KINDS[kind] < 0.05 or number < LONG_ROUNDS}
        begun = time.monotonic()
        if number >= LONG_ROUNDS and begun - start + longest > seconds:
            print(f"no time for round {number + 1} of {rounds}", file=sys.stderr)
            break
        lone = {kind: alone(kind, kinds[kind]) for kind in kinds}
        ideal = {kind: TASKS * lone[kind] / WORKERS for kind in kinds}
        for name in systems if number % 2 else reversed(systems):
            if table.is_given_up(name):
                continue
            took, problem = timed_elsewhere(name, kinds, 60 + 3 * sum(ideal.values()))
            values = {kind: ideal[kind] / took[kind] for kind in took}
            table.add(name, values, problem)
            said = ", ".join(f"{kind} {value:.3f}" for kind, value in values.items())
            done = f"{time.monotonic() - start:4.0f} s, round {number + 1} of {rounds}"
            print(f"{done}, {name}: {said} {problem}", file=sys.stderr, flush=True)
        longest = max(longest, time.monotonic() - begun) if number >= LONG_ROUNDS else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--minutes", type=float, default=11.5, help="after which no round is begun that would end later"
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "LOOPS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        time_one(options.one[0], json.loads(options.one[1]))
        return
    there = [name for name in options.systems if importlib.util.find_spec(NEEDS.get(name, "scaler")) is not None]
    table = Table(there, options.kinds)
    try:
        loops = {kind: calibrated(work_of(kind), KINDS[kind]) for kind in options.kinds}
        measure(table, there, loops, options.rounds, options.minutes * 60)
    finally:  # also after Ctrl-C
        table.show()


if __name__ == "__main__":
    main()
