"""Pairs: two installed versions of Scaler, run in turn, so that the drift of a machine hits both alike.

    python tests/benchmarks/pairs.py OLD/bin/python NEW/bin/python
    python tests/benchmarks/pairs.py OLD/bin/python NEW/bin/python --tasks 50000 --pairs 15

Each run starts a scheduler, a cluster of two workers and a client, at the same explicit address for both versions. The
ratio of a pair is new to old, turned so that more than 1 is better. Shown are the median of all ratios and the interval
in which it lies with 95 % confidence (by the order of the ratios; nothing is assumed of their distribution).
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
from math import comb

CASES = ("map_rate", "submit_rate", "latency", "fib_8", "graph_tree")

PROGRAM = r"""
import json, sys, time
from scaler import Client, SchedulerClusterCombo

address, n_tasks = sys.argv[1], int(sys.argv[2])

def noop(x): return x
def inc(x): return x + 1
def add(a, b): return a + b
def fib(client, n):
    if n < 2:
        return n
    a, b = client.submit(fib, client, n - 1), client.submit(fib, client, n - 2)
    return a.result() + b.result()

def seconds(function, times=2):
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best

def check(value, expected):
    assert value == expected, (value, expected)

def latency(client):
    times = []
    for i in range(400):
        start = time.perf_counter()
        client.submit(noop, i).result()
        times.append(time.perf_counter() - start)
    return sorted(times)[200]

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

combo = SchedulerClusterCombo(2, address, logging_level="ERROR")
client = Client(address)
client.map(noop, [(i,) for i in range(100)])
total = sum(range(n_tasks))
graph, root = tree(2500)
figures = {
    "map_rate": n_tasks / seconds(lambda: check(sum(client.map(noop, [(i,) for i in range(n_tasks)])), total)),
    "submit_rate": n_tasks / seconds(
        lambda: check(sum(f.result() for f in [client.submit(noop, i) for i in range(n_tasks)]), total)),
    "latency": 1 / latency(client),
    "fib_8": 1 / seconds(lambda: check(client.submit(fib, client, 8).result(), 21)),
    "graph_tree": 1 / seconds(lambda: check(client.get(graph, [root])[root], sum(range(2500)) + 2500)),
}
print(json.dumps(figures))
client.disconnect()
combo.shutdown()
"""


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def run(python: str, tasks: int) -> dict[str, float]:
    done = subprocess.run(
        [python, "-I", "-c", PROGRAM, free_address(), str(tasks)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{python} failed:\n{done.stdout}\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return between which of the ratios their median lies with at least 95 % confidence."""
    ordered, n = sorted(ratios), len(ratios)
    outside, cut = 0.0, 0
    while cut < n // 2 and outside + 2 * comb(n, cut) / 2**n <= 0.05:
        outside += 2 * comb(n, cut) / 2**n
        cut += 1
    cut = max(cut - 1, 0)
    return ordered[cut], ordered[n - 1 - cut]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the interpreter of an environment with the old version")
    parser.add_argument("new", help="the interpreter of an environment with the new version")
    parser.add_argument("--tasks", type=int, default=50_000, help="tasks of the rates (default: 50000)")
    parser.add_argument("--pairs", type=int, default=15, help="how many pairs (default: 15)")
    options = parser.parse_args()
    runs: list[tuple[dict[str, float], dict[str, float]]] = []
    for pair in range(options.pairs):
        both = {each: run(each, options.tasks) for each in (options.old, options.new)[:: 1 if pair % 2 else -1]}
        runs.append((both[options.old], both[options.new]))
        print(f"pair {pair + 1} of {options.pairs}", file=sys.stderr)
    print("| case        |          old |          new | ratio | 95 % of the median |")
    print("|-------------|-------------:|-------------:|------:|-------------------:|")
    for case in CASES:
        old, new = (statistics.median(figures[place][case] for figures in runs) for place in (0, 1))
        ratios = [one[1][case] / one[0][case] for one in runs]
        low, high = interval(ratios)
        shown = (
            (f"{old:,.0f} /s", f"{new:,.0f} /s") if "rate" in case else (f"{1e3 / old:.2f} ms", f"{1e3 / new:.2f} ms")
        )
        median = statistics.median(ratios)
        print(f"| {case:11} | {shown[0]:>12} | {shown[1]:>12} | {median:5.3f} | {low:.3f} to {high:.3f} |")


if __name__ == "__main__":
    main()
