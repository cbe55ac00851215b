"""How much of two cores small tasks get: calls of 1, 10 and 100 ms, and of 1 ms of numpy, beside other pools.

In each round all systems are started anew, in processes of their own, and stand side by side; each is warmed up. Then
their blocks follow each other: for each kind, one of each system in turn, and the same again in the other order. A
block is one map with chunks of one call, which would take half a second on two ideal cores (1 ms: all 600 calls, 10 ms:
100, 100 ms: 20); while one system works, the others only wait. So a machine that changes its speed within seconds hits
all of them alike. Shown are medians of the rounds, and the intervals in which they lie with 95 % confidence, if there
are six rounds at least (by their order; nothing is assumed of their distribution):

- beside the pool: how many times as fast as the Pool's block of the same turn.
- of the work in place: the processor time that the calls of a block themselves took, by their own clocks, divided by
  the workers and by the time of the block. The rest is what the system took, and what it left idle. The work has
  the speed that the cores have just then: two that are both at work, perhaps halves of one.
- of the work alone: the same with what the calls take one after the other in this process, measured before and after
  the block while all systems wait. One busy core may be faster than two, and has changed its speed since then.

The work is fixed: loops whose number is found once, before all. Systems that are not installed are left out; one that
fails or hangs is said, and the table has the others. Progress goes to standard error, the table to standard output.

    python tests/benchmarks/efficiency.py                                       all systems
    python tests/benchmarks/efficiency.py --systems scaler pool --kinds "10 ms" --rounds 20
    python tests/benchmarks/efficiency.py --systems scaler pool --kinds "10 ms" --seconds 3     600 calls in each block
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each worker, for all systems, and here

from _report import interval

from scaler import Client

WORKERS = 2
TASKS = 600
"""The most calls of a block."""
KINDS = {"1 ms": 0.001, "10 ms": 0.01, "100 ms": 0.1, "1 ms of numpy": 0.001}
PATIENCE = 120.0
"""Seconds for the start of a system, and beside the work of each block."""
Work = Callable[[int], float]
"""returns the processor time that it took"""
Runner = Callable[[Work, int, int], Sequence[float]]
"""calls a function so many times with the same argument, and waits for all"""


def count(loops: int) -> float:
    """Work in plain Python."""
    start, total = time.thread_time(), 0
    for number in range(loops):
        total += number & 7
    return time.thread_time() - start


def multiply(loops: int) -> float:
    """Work in numpy."""
    import numpy as np

    start = time.thread_time()
    matrix = np.full((64, 64), 0.5)
    for _ in range(loops):
        matrix = (matrix @ matrix) / 32
    return time.thread_time() - start


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

    def run(work: Work, loops: int, calls: int) -> Sequence[float]:
        remote = of_ray.remote(work)
        return list(of_ray.get([remote.remote(loops) for _ in range(calls)]))

    of_ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)
    try:
        yield run
    finally:
        of_ray.shutdown()


SYSTEMS = {"scaler": scaler, "pool": pool, "loky": loky, "dask": dask, "ray": ray}
NEEDS = {"loky": "joblib", "dask": "distributed", "ray": "ray"}


def work_of(kind: str) -> Work:
    return multiply if "numpy" in kind else count


def calls_of(kind: str, seconds: float) -> int:
    """Return how many calls take all workers so long, or all that there may be; at least ten for each worker."""
    return min(TASKS, max(10 * WORKERS, round(WORKERS * seconds / KINDS[kind])))


def alone(kind: str, loops: int) -> float:
    """Return how long one call takes here, with nothing beside it."""
    times = []
    for _ in range(max(3, round(0.05 / KINDS[kind]))):
        start = time.perf_counter()
        work_of(kind)(loops)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def calibrated(kind: str) -> int:
    """Return how many loops take as long as the kind says."""
    loops = 1
    while (took := alone(kind, loops)) < KINDS[kind] / 2:
        loops *= 2
    return max(1, round(loops * KINDS[kind] / took))


class Block(NamedTuple):
    """A map with one system."""

    seconds: float
    in_place: float
    """the processor time of its calls"""


class SystemFailedError(Exception):
    """A system has ended, or gives no answer."""


class Standing:
    """One system in a process of its own, which does what it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._told, theirs = multiprocessing.Pipe()
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - until it is closed
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--one", name, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=self._said,
            stderr=self._said,
            start_new_session=True,
        )
        theirs.close()

    def run(self, kind: str, loops: int, calls: int) -> Block:
        """Run a block.

        Raises:
            SystemFailedError: with what it has said last.
        """
        patience = PATIENCE + 3 * calls * KINDS[kind]
        try:
            self._told.send((kind, loops, calls))
            if self._told.poll(patience):
                return Block(*self._told.recv())
            problem = f"{kind}: no answer within {patience:.0f} s"
        except (OSError, EOFError):
            problem = f"{kind}: it has ended"
        self._said.seek(0)
        said = [line for line in self._said.read().splitlines() if line.strip()]
        raise SystemFailedError(": ".join([problem, *said[-1:]]))

    def close(self) -> None:
        self._told.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        with contextlib.suppress(ProcessLookupError):  # also after it has ended: what it may have left
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._said.close()


def stand(name: str, descriptor: int) -> None:
    """Be one of the systems, in the process that was started for it."""
    os.set_inheritable(descriptor, False)
    with Connection(descriptor) as told, SYSTEMS[name]() as run, contextlib.suppress(EOFError):
        while True:
            kind, loops, calls = told.recv()
            start = time.perf_counter()
            used = run(work_of(kind), loops, calls)
            told.send((time.perf_counter() - start, sum(used)))


Turn = dict[str, tuple[Block, float]]
"""of each system a block, and what its work takes alone"""
COLUMNS = ("beside the pool", "of the work in place", "of the work alone")


def figures(name: str, turns: Sequence[Turn]) -> list[float | None]:
    """Return the figures of one system in one round, one for each column, if there are any."""
    there = [turn for turn in turns if name in turn]
    if not there:
        return [None] * len(COLUMNS)
    ratios = [turn["pool"][0].seconds / turn[name][0].seconds for turn in there if "pool" in turn]
    blocks = [turn[name] for turn in there]
    return [
        statistics.median(ratios) if ratios else None,
        statistics.median(block.in_place / WORKERS / block.seconds for block, _ in blocks),
        statistics.median(lone / WORKERS / block.seconds for block, lone in blocks),
    ]


class Table:
    """What was found so far, and what failed."""

    def __init__(self, systems: list[str], kinds: list[str]) -> None:
        self._systems = systems
        self._found: dict[tuple[str, str], list[list[float | None]]] = {(k, s): [] for k in kinds for s in systems}
        self._problems: dict[str, list[str]] = {name: [] for name in systems}

    def wanted(self) -> list[str]:
        """Return the systems that have not failed so often that they are not tried any more."""
        return [name for name in self._systems if len(self._problems[name]) < 2]

    def failed(self, name: str, problem: object) -> None:
        self._problems[name].append(str(problem))
        print(f"{name} failed: {problem}", file=sys.stderr, flush=True)

    def add(self, kind: str, turns: Sequence[Turn]) -> None:
        """Add the blocks of one kind in one round."""
        for name in self._systems:
            self._found[kind, name].append(figures(name, turns))
        said = [f"{name} {_shown([each])}" for name in self._systems if (each := self._found[kind, name][-1][1])]
        print(f"  {kind}, {COLUMNS[1]}: {', '.join(said)}", file=sys.stderr, flush=True)

    def show(self) -> None:
        print(f"| efficiency, {WORKERS} workers | | rounds | " + " | ".join(COLUMNS) + " |")
        print("|---|---|" + "--:|" * (1 + len(COLUMNS)))
        for (kind, name), rounds in self._found.items():
            columns = [[each for each in column if each is not None] for column in zip(*rounds, strict=True)]
            count = len(columns[1]) if columns else 0
            print(f"| {kind} | {name} | {count} | " + " | ".join(map(_shown, columns)) + " |")
        for name, problems in self._problems.items():
            for problem in problems:
                print(f"\n{name} failed: {problem}")


def _shown(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}" if values else "-"
    low, high = interval(values)
    return f"{statistics.median(values):.3f} ({low:.3f} to {high:.3f})"


def measured(standing: dict[str, Standing], kind: str, loops: int, calls: int, turns: int, table: Table) -> list[Turn]:
    """Run the blocks of one kind. A system that fails is taken out."""
    found: list[Turn] = []
    before = alone(kind, loops)
    for number in range(turns):
        turn: Turn = {}
        for name in list(standing) if number % 2 else list(reversed(standing)):
            try:
                block = standing[name].run(kind, loops, calls)
            except SystemFailedError as problem:
                table.failed(name, problem)
                standing.pop(name).close()
                continue
            after = alone(kind, loops)
            turn[name] = block, calls * (before + after) / 2
            before = after
        found.append(turn)
    return found


def measure_round(table: Table, loops: dict[str, int], options: argparse.Namespace, is_reversed: bool) -> None:
    names = table.wanted()
    standing = {name: Standing(name) for name in (reversed(names) if is_reversed else names)}
    try:
        for kind, number in loops.items():  # each answers when it is there and has warmed up
            measured(standing, kind, number, calls_of(kind, 0.1), 1, table)
        for kind, number in loops.items():
            calls = calls_of(kind, options.seconds)
            table.add(kind, measured(standing, kind, number, calls, options.turns, table))
    finally:
        for system in standing.values():
            system.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turns", type=int, default=2, help="how many blocks of each kind a system has in a round")
    parser.add_argument("--seconds", type=float, default=0.5, help="what a block would take on ideal cores")
    parser.add_argument("--minutes", type=float, default=11.5, help="no round is begun that would end later")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "DESCRIPTOR"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        stand(options.one[0], int(options.one[1]))
        return
    there = [name for name in options.systems if importlib.util.find_spec(NEEDS.get(name, "scaler")) is not None]
    table = Table(there, options.kinds)
    start, longest = time.monotonic(), 0.0
    try:
        loops = {kind: calibrated(kind) for kind in options.kinds}
        for number in range(options.rounds):
            begun = time.monotonic()
            if begun - start + longest > options.minutes * 60:
                print(f"no time for round {number + 1} of {options.rounds}", file=sys.stderr)
                break
            measure_round(table, loops, options, is_reversed=bool(number % 2))
            longest = max(longest, time.monotonic() - begun)
            print(f"{time.monotonic() - start:4.0f} s: round {number + 1} of {options.rounds}", file=sys.stderr)
    finally:  # also after Ctrl-C
        table.show()


if __name__ == "__main__":
    main()
