"""Graphs: reading and ordering them in the client, following them in the scheduler, and running them as a whole.

    python tests/benchmarks/graph.py                     all figures
    python tests/benchmarks/graph.py order readiness     without processes: time and memory by shape and back-end
    python tests/benchmarks/graph.py system              `Client.get` on a scheduler and two workers

Figures of `order` and `readiness` are taken in a process for each shape and back-end, since memory that was used once
does not come back to the system: MiB are the growth of its peak, seconds the best of four. The import of
python-graphblas is in neither.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import psutil

from scaler import Client, SchedulerClusterCombo
from scaler.graph.description import read
from scaler.graph.order import BACK_END_VARIABLE, back_end, order
from scaler.graph.readiness import READY, Readiness

Graph = tuple[dict[str, Any], str]
"""A graph and the key that is asked for."""


def inc(x: int) -> int:
    return x + 1


def add(a: int, b: int) -> int:
    return a + b


def total(*values: int) -> int:
    return sum(values)


def tree(calls: int) -> Graph:
    """A reduction: half of the calls have data, each of the others adds two results."""
    leaves = (calls + 1) // 2
    graph: dict[str, Any] = {}
    for i in range(leaves):
        graph[f"v{i}"] = i
        graph[f"x{i}"] = (inc, f"v{i}")
    layer = [f"x{i}" for i in range(leaves)]
    while len(layer) > 1:
        above = []
        for a, b in zip(layer[::2], layer[1::2], strict=False):
            key = f"r{len(graph)}"
            graph[key] = (add, a, b)
            above.append(key)
        layer = above + ([layer[-1]] if len(layer) % 2 else [])
    return graph, layer[0]


def wide(calls: int) -> Graph:
    """Calls that need nothing, in groups of 100, and one that needs all groups."""
    graph: dict[str, Any] = {f"x{i}": (inc, i) for i in range(calls)}
    for start in range(0, calls, 100):
        graph[f"g{start}"] = (total, *(f"x{i}" for i in range(start, min(calls, start + 100))))
    graph["all"] = (total, *(f"g{start}" for start in range(0, calls, 100)))
    return graph, "all"


def layers(calls: int) -> Graph:
    """Ten layers; each call needs fifty of the layer before: many edges."""
    width = calls // 10
    graph: dict[str, Any] = {f"0-{i}": (inc, i) for i in range(width)}
    for layer in range(1, 10):
        for i in range(width):
            graph[f"{layer}-{i}"] = (total, *(f"{layer - 1}-{(i * 7 + k * 13) % width}" for k in range(50)))
    graph["all"] = (total, *(f"9-{i}" for i in range(width)))
    return graph, "all"


def chain(calls: int) -> Graph:
    """Each call needs the one before it; the last one comes first."""
    graph: dict[str, Any] = {str(i): (inc, str(i - 1)) for i in range(calls - 1, 0, -1)}
    graph["0"] = (inc, 0)
    return graph, str(calls - 1)


SHAPES: dict[str, tuple[Callable[[int], Graph], int]] = {
    "tree of 4,000": (tree, 4_000),
    "tree of 100,000": (tree, 100_000),
    "wide, 1,000,000": (wide, 1_000_000),
    "layers, 100,000, 50 edges each": (layers, 100_000),
    "chain of 1,000,000": (chain, 1_000_000),
}


REPEATS = 3


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(program: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, growth of the peak in MiB, and what it returned."""
    before, start = peak_mib(), time.perf_counter()
    value = program()
    return time.perf_counter() - start, peak_mib() - before, value


def figures(shape: str) -> dict[str, Any]:
    """Take the figures of one shape, in this process and with the back-end that the environment says."""
    make, calls = SHAPES[shape]
    graph, top = make(calls)
    read_seconds, read_mib, description = measured(lambda: read(graph, [top]))
    back_end(len(description.counts))([0, 1], [0], [1])  # imports it
    order_seconds, order_mib, ordered = measured(lambda: order(description))
    for _ in range(REPEATS):
        order_seconds = min(order_seconds, measured(lambda: order(description))[0])
        read_seconds = min(read_seconds, measured(lambda: read(graph, [top]))[0])
    places = {number: place for place, number in enumerate(ordered)}
    ends = [0]
    for count in description.counts:
        ends.append(ends[-1] + count)
    needs = [[places[d] for d in description.dependencies[start:end]] for start, end in pairwise(ends)]
    rows = [needs[number] for number in ordered]

    def follow() -> None:
        readiness = Readiness()
        ready = [position for position, row in enumerate(rows) if readiness.add(row) == READY]
        for position in ready:
            ready += readiness.finish(position)
        assert len(ready) == len(rows)

    follow_seconds, follow_mib, _ = measured(follow)
    follow_seconds = min(follow_seconds, *(measured(follow)[0] for _ in range(REPEATS)))
    return {
        "edges": len(description.dependencies), "read": (read_seconds, read_mib), "order": (order_seconds, order_mib),
        "follow": (follow_seconds, follow_mib),
    }  # fmt: skip


def in_a_process(shape: str, choice: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--figures", shape],
        env={**os.environ, BACK_END_VARIABLE: choice}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    taken: dict[str, Any] = json.loads(done.stdout)
    return taken


def show(pair: list[float]) -> str:
    seconds, mib = pair
    return f"{seconds * 1e3:9,.1f} ms {mib:7,.0f} MiB"


def orders() -> Iterator[tuple[str, str]]:
    for shape in SHAPES:
        plain, blas = in_a_process(shape, "python"), in_a_process(shape, "graphblas")
        yield f"{shape}: read and check", show(plain["read"])
        yield f"{shape}: order, plain Python", show(plain["order"])
        yield f"{shape}: order, python-graphblas", show(blas["order"]) + f" ({plain['edges']:,} edges)"


def readinesses() -> Iterator[tuple[str, str]]:
    for shape in SHAPES:
        yield f"{shape}: follow in the scheduler", show(in_a_process(shape, "python")["follow"])


def cpu_seconds() -> dict[str, float]:
    """Return the processor time used so far, by kind of process."""
    used = {"client": sum(psutil.Process().cpu_times()[:2])}
    for process in psutil.Process().children(recursive=True):
        line = " ".join(process.cmdline())
        kind = "scheduler" if "scaler_scheduler" in line else "agent" if "scaler_cluster" in line else "processors"
        used[kind] = used.get(kind, 0.0) + sum(process.cpu_times()[:2])
    return used


def system() -> Iterator[tuple[str, str]]:
    with SchedulerClusterCombo(2, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
        client.map(inc, [(i,) for i in range(2000)])
        cases = (
            ("tree of 5,000", tree, 5_000, 9),
            ("tree of 100,000", tree, 100_000, 3),
            ("chain of 2,000", chain, 2_000, 3),
        )
        for name, make, calls, repeats in cases:
            graph, top = make(calls)
            client.get(graph, [top])
            before, times = cpu_seconds(), []
            for _ in range(repeats):
                start = time.perf_counter()
                client.get(graph, [top])
                times.append(time.perf_counter() - start)
            times.sort()
            after = cpu_seconds()
            used = ", ".join(f"{kind} {(after[kind] - before[kind]) / repeats / calls * 1e6:.1f}" for kind in after)
            yield f"get: {name}", f"{times[0]:.3f} s (median {times[repeats // 2]:.3f}); us of processor a call: {used}"


RUNS = (
    ("tree of 5,000", tree, 5_000, 9),
    ("tree of 100,000", tree, 100_000, 3),
    ("chain of 2,000", chain, 2_000, 3),
)
"""Name, shape, calls and repeats."""

PARTS = {"order": orders, "readiness": readinesses, "system": system}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"what to measure: {', '.join(PARTS)}")
    parser.add_argument("--figures", choices=SHAPES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.figures:
        print(json.dumps(figures(options.figures)))
        return
    for part in options.parts or PARTS:
        for name, figure in PARTS[part]():
            print(f"{name:60} {figure}", flush=True)


if __name__ == "__main__":
    main()
