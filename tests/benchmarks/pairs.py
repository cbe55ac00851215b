"""Pairs: two installed versions of Scaler beside each other, block by block, so that a machine's drift hits both alike.

    python tests/benchmarks/pairs.py OLD/bin/python NEW/bin/python
    python tests/benchmarks/pairs.py OLD/bin/python NEW/bin/python --tasks 50000 --pairs 15
    python tests/benchmarks/pairs.py OLD/bin/python NEW/bin/python --local
    python tests/benchmarks/pairs.py OLD/bin/python NEW/bin/python --cases prints nests large

For each pair, both versions start a scheduler, a cluster of two workers and a client of their own, at an address of
TCP; with `--local`, at the one that a local cluster chooses by itself. Then each case is run in turn: old, new, new,
old, and the same again. While one works, the other only waits. The next pair begins with the other version: of two
clusters of one version, one can be a tenth slower than the other as long as both stand, so many pairs are needed.

Rates, nesting and graphs are the best of a version's four blocks; the round trip is the median of its 400. The first
block of nesting has a row of its own: in that one, processors are forked for the tasks that wait. The ratio of
a pair is new to old, turned so that more than 1 is better; that of the processor time compares what all processes of a
version have used together. Shown are the medians of all pairs, and the intervals in which the medians of the ratios lie
with 95 % confidence (by their order; nothing is assumed of their distribution).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from _report import interval

CASES = ("map_rate", "submit_rate", "latency", "fib_8", "graph_tree")
SPECIAL = ("prints", "nests", "large")
"""maps in which something happens to each row: it prints a line, waits for a nested task, or returns 20 kB"""

PROGRAM = r"""
import json, sys, time
import psutil
from scaler import Client, SchedulerClusterCombo

address, n_tasks = sys.argv[1] or None, int(sys.argv[2])

def noop(x): return x
def inc(x): return x + 1
def add(a, b): return a + b
def prints(x):
    print(x)
    return x
def nests(client, x): return client.submit(noop, x).result()
def large(x): return bytes(20_000)
def fib(client, n):
    if n < 2:
        return n
    a, b = client.submit(fib, client, n - 1), client.submit(fib, client, n - 2)
    return a.result() + b.result()

def check(value, expected):
    assert value == expected, (value, expected)

def mapped(function, rows):
    check(len(client.map(function, rows)), len(rows))

def trips():
    times = []
    for i in range(100):
        start = time.perf_counter()
        client.submit(noop, i).result()
        times.append(time.perf_counter() - start)
    return times

def tree(n):
    graph = {f"v{i}": i for i in range(n)} | {f"x{i}": (inc, f"v{i}") for i in range(n)}
    layer, k = [f"x{i}" for i in range(n)], 0
    while len(layer) > 1:
        up = []
        for a, b in zip(layer[::2], layer[1::2]):
            graph[f"r{k}"] = (add, a, b)
            up.append(f"r{k}")
            k += 1
        layer = up + ([layer[-1]] if len(layer) % 2 else [])
    return graph, layer[0]

def seconds(function):
    start = time.perf_counter()
    function()
    return [time.perf_counter() - start]

def used():
    times = [each.cpu_times() for each in (this, *this.children(recursive=True))]
    return sum(each.user + each.system for each in times)

combo = SchedulerClusterCombo(2, address, logging_level="ERROR")
client = Client(combo.get_address())
client.map(noop, [(i,) for i in range(100)])
total = sum(range(n_tasks))
graph, root = tree(2500)
cases = {
    "map_rate": lambda: seconds(lambda: check(sum(client.map(noop, [(i,) for i in range(n_tasks)])), total)),
    "submit_rate": lambda: seconds(
        lambda: check(sum(f.result() for f in [client.submit(noop, i) for i in range(n_tasks)]), total)),
    "latency": trips,
    "fib_8": lambda: seconds(lambda: check(client.submit(fib, client, 8).result(), 21)),
    "prints": lambda: seconds(lambda: mapped(prints, [(i,) for i in range(n_tasks // 10)])),
    "nests": lambda: seconds(lambda: mapped(nests, [(client, i) for i in range(n_tasks // 100)])),
    "large": lambda: seconds(lambda: mapped(large, [(i,) for i in range(n_tasks // 10)])),
    "graph_tree": lambda: seconds(lambda: check(client.get(graph, [root])[root], sum(range(2500)) + 2500)),
}
this = psutil.Process()
print("ready", flush=True)
for line in sys.stdin:
    before = used()
    times = cases[line.strip()]()
    print(json.dumps([times, used() - before]), flush=True)
client.disconnect()
combo.shutdown()
"""


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Figures(NamedTuple):
    """What one version took for one case of one pair."""

    seconds: float
    processor_seconds: float


class Version:
    """A program that runs in one of the two environments, and does what it is told by a line."""

    def __init__(self, python: str, tasks: int, address: str) -> None:
        self._python = python
        self._errors = tempfile.TemporaryFile("w+")  # the lines that tasks print, too  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, "-I", "-c", PROGRAM, address, str(tasks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answer()

    def run(self, case: str) -> tuple[list[float], float]:
        """Return the seconds of each measurement of a block, and the processor time of all."""
        assert self._process.stdin is not None
        print(case, file=self._process.stdin, flush=True)
        times, used = json.loads(self._answer())
        return times, used

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            sys.exit(f"{self._errors.read()}{self._python} failed")
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def standing(python: str, tasks: int, is_local: bool) -> Iterator[Version]:
    version = Version(python, tasks, "" if is_local else free_address())
    try:
        yield version
    finally:
        version.close()


Pair: TypeAlias = dict[str, tuple[Figures, Figures]]
"""by the name of the row"""


def measured(both: tuple[Version, Version], case: str, swap: bool) -> Pair:
    """Run one case, four blocks of each version in turn. Return its rows."""
    times: tuple[list[float], list[float]] = ([], [])
    used = [0.0, 0.0]
    first = [0.0, 0.0]
    for block in range(8):
        which = (block + 1) // 2 % 2 ^ swap
        seconds, spent = both[which].run(case)
        times[which].extend(seconds)
        used[which] += spent
        first[which] = first[which] or spent
    choose = statistics.median if case == "latency" else min
    rows = {case: (Figures(choose(times[0]), used[0]), Figures(choose(times[1]), used[1]))}
    if case == "fib_8":
        rows["fib_8 first"] = Figures(times[0][0], first[0]), Figures(times[1][0], first[1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the interpreter of an environment with the old version")
    parser.add_argument("new", help="the interpreter of an environment with the new version")
    parser.add_argument("--tasks", type=int, default=50_000, help="tasks of the rates (default: 50000)")
    parser.add_argument("--pairs", type=int, default=15, help="how many pairs (default: 15)")
    cases = f"of {', '.join((*CASES, *SPECIAL))} (default: {', '.join(CASES)})"
    parser.add_argument("--cases", nargs="+", default=CASES, choices=(*CASES, *SPECIAL), metavar="CASE", help=cases)
    parser.add_argument("--local", action="store_true", help="the address that a local cluster chooses by itself")
    options = parser.parse_args()
    pairs: list[Pair] = []
    for pair in range(options.pairs):
        swap = bool(pair % 2)
        first, second = (options.new, options.old) if swap else (options.old, options.new)
        with (
            standing(first, options.tasks, options.local) as one,
            standing(second, options.tasks, options.local) as other,
        ):
            both = (other, one) if swap else (one, other)
            pairs.append({name: row for case in options.cases for name, row in measured(both, case, swap).items()})
        print(f"pair {pair + 1} of {options.pairs}", file=sys.stderr)
    print(
        "| case        |         old |         new | ratio | 95 % of the median | processor time | 95 % of the median |"
    )
    print(
        "|-------------|------------:|------------:|------:|-------------------:|---------------:|-------------------:|"
    )
    for case in pairs[0]:
        old_seconds, new_seconds = (statistics.median(pair[case][place].seconds for pair in pairs) for place in (0, 1))
        shown = [
            f"{options.tasks / each:,.0f} /s" if "rate" in case else f"{1e3 * each:.2f} ms"
            for each in (old_seconds, new_seconds)
        ]
        columns = []
        for which in (0, 1):
            ratios = [pair[case][0][which] / pair[case][1][which] for pair in pairs]
            low, high = interval(ratios)
            columns.append(f"{statistics.median(ratios):5.3f} | {low:.3f} to {high:.3f}")
        print(f"| {case:11} | {shown[0]:>11} | {shown[1]:>11} | {columns[0]:>26} | {columns[1]:>35} |")


if __name__ == "__main__":
    main()
