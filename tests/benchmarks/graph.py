"""Graphs: reading and ordering them in the client, and running them as a whole.

    python tests/benchmarks/graph.py                     all figures
    python tests/benchmarks/graph.py order               without a scheduler: time and memory by shape and back-end
    python tests/benchmarks/graph.py fan_out             one result that very many nodes need, in the scheduler alone
    python tests/benchmarks/graph.py system              `Client.get` on a scheduler and two workers

Figures of `order` are taken in a process for each shape and back-end, since memory that was used once does not come
back to the system: MiB are the growth of its peak, times the best of four. The import of python-graphblas is not in
them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from _kinds import kind_of
from scheduler_core import Run

from scaler import Client, SchedulerClusterCombo
from scaler.graph.description import read
from scaler.graph.order import BACK_END_VARIABLE, back_end, order
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.pickling.serialization import result_argument
from scaler.process.shell import GARBAGE_THRESHOLDS
from scaler.wire.messages.client import Task
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER

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


RUNS = (
    ("tree of 5,000", tree, 5_000, 9),
    ("tree of 100,000", tree, 100_000, 3),
    ("chain of 2,000", chain, 2_000, 3),
)
"""Name, shape, calls and repeats."""

REPEATS = 3


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(program: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, growth of the peak in MiB, and what it returned."""
    before, start = peak_mib(), time.perf_counter()
    value = program()
    return time.perf_counter() - start, peak_mib() - before, value


def order_figures(shape: str) -> dict[str, Any]:
    """Read and order a graph, in this process and with the back-end that the environment says."""
    make, calls = SHAPES[shape]
    graph, top = make(calls)
    read_seconds, read_mib, description = measured(lambda: read(graph, [top]))
    back_end(len(description.counts))([0, 1], [0], [1])  # imports it
    order_seconds, order_mib, _ = measured(lambda: order(description))
    for _ in range(REPEATS):
        order_seconds = min(order_seconds, measured(lambda: order(description))[0])
        read_seconds = min(read_seconds, measured(lambda: read(graph, [top]))[0])
    edges = len(description.dependencies)
    return {"edges": edges, "read": (read_seconds, read_mib), "order": (order_seconds, order_mib)}


class FanOut(Run):
    """A graph of one task and many that need its result, in a scheduler without sockets."""

    longest_seconds = 0.0
    """the longest time in which the scheduler read no socket"""

    def turn(self) -> None:
        while True:
            start = time.perf_counter()
            more = self.edge.receive() | (not self.dispatcher.run(flush=self.edge.flush))
            self.longest_seconds = max(self.longest_seconds, time.perf_counter() - start)
            deadline = self.dispatcher.next_deadline()
            if not more and (deadline is None or deadline > time.monotonic()):
                return

    def submit(self) -> None:
        function_id = ObjectId(b"f" * 16)
        graph: dict[str, Any] = {"graph_id": GraphId(b"g" * 16), "graph_tasks": self.count + 1}
        tasks = [Task(TaskId(bytes(16)), function_id, b"", b"", unwanted=1, **graph)]
        for position in range(1, self.count + 1):
            task_id, unwanted = TaskId(position.to_bytes(16, "big")), int(position < self.count)
            needs: dict[str, Any] = {"dependencies": bytes(4), "unwanted": unwanted}
            tasks.append(Task(task_id, function_id, result_argument(0), b"", **needs, **graph))
        for start in range(0, len(tasks), 2048):
            self.wire.say(self.clients[0], CLIENT_TO_SCHEDULER, tasks[start : start + 2048])
            self.turn()

    def finish(self) -> None:
        while not self._answer():
            self.turn()


def fan_out_figures(shape: str) -> dict[str, Any]:
    """Submit a graph, and end its first task: what the consumers cost until the last of them has started."""
    consumers, size = map(int, shape.split("x"))
    run = FanOut(consumers, result_bytes=size)
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    _, announce_mib, _ = measured(run.submit)
    announce_seconds, run.longest_seconds = run.longest_seconds, 0.0
    seconds, mib, _ = measured(run.finish)
    return {"announce": (announce_seconds, announce_mib), "run": (run.longest_seconds, mib), "seconds": seconds}


FAN_OUTS = ("100000x10", "20000x16000", "5000x15000")
"""How many nodes need one result, of how many bytes."""


def fan_outs() -> Iterator[tuple[str, str]]:
    for shape in FAN_OUTS:
        taken = in_a_process("fan_out", shape)
        consumers, size = map(int, shape.split("x"))
        name = f"{consumers:,} nodes need one result of {size:,} bytes"
        yield f"{name}: longest time without a read, announcing it", show(taken["announce"])
        yield f"{name}: the same, running it", show(taken["run"]) + f" ({taken['seconds']:.2f} s in all)"


MEASURES = {
    "order": order_figures,
    "fan_out": fan_out_figures,
}


def in_a_process(measure: str, shape: str, choice: str = "python") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--measure", measure, shape],
        env={**os.environ, BACK_END_VARIABLE: choice}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    taken: dict[str, Any] = json.loads(done.stdout)
    return taken


def show(pair: list[float]) -> str:
    seconds, mib = pair
    return f"{seconds * 1e3:9,.1f} ms {mib:7,.0f} MiB"


def orders() -> Iterator[tuple[str, str]]:
    for shape in SHAPES:
        plain, blas = in_a_process("order", shape, "python"), in_a_process("order", shape, "graphblas")
        yield f"{shape}: read and check", show(plain["read"])
        yield f"{shape}: order, plain Python", show(plain["order"])
        yield f"{shape}: order, python-graphblas", show(blas["order"]) + f" ({plain['edges']:,} edges)"


def cpu_seconds() -> dict[str, float]:
    """Return the processor time used so far, by kind of process."""
    used = {"client": sum(psutil.Process().cpu_times()[:2])}
    for process in psutil.Process().children(recursive=True):
        kind = kind_of(process)
        used[kind] = used.get(kind, 0.0) + sum(process.cpu_times()[:2])
    return used


def system() -> Iterator[tuple[str, str]]:
    with SchedulerClusterCombo(2, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
        client.map(inc, [(i,) for i in range(2000)])
        for name, make, calls, repeats in RUNS:
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


WAITING = 60_000
"""How many tasks wait for the sizes."""


def wait_for(path: str) -> int:
    """Return 1 when a file exists."""
    while not Path(path).exists():
        time.sleep(0.05)
    return 1


def resident_bytes(combo: SchedulerClusterCombo, client: Client) -> dict[str, int]:
    """Return the resident memory of the client and the scheduler, once the scheduler has all that was sent to it."""
    client.submit(inc, 1).result()
    processes = {"client": psutil.Process()}
    processes |= {kind_of(each): each for each in psutil.Process().children(recursive=True)}
    gc.collect()
    return {kind: processes[kind].memory_info().rss for kind in ("client", "scheduler")}


def sizes() -> Iterator[tuple[str, str]]:
    """Submit tasks that wait for one that does not end, and compare the memory of client and scheduler before it."""
    submits: dict[str, Callable[[Client, str], object]] = {
        "a graph of which one result is wanted": lambda client, gate: client.get(
            {"gate": gate, "first": (wait_for, "gate"), **{f"x{i}": (add, "first", i) for i in range(WAITING)},
             "all": (total, *(f"x{i}" for i in range(WAITING)))}, ["all"], block=False),
        "a graph of which all results are wanted": lambda client, gate: client.get(
            {"gate": gate, "first": (wait_for, "gate"), **{f"x{i}": (add, "first", i) for i in range(WAITING)}},
            [f"x{i}" for i in range(WAITING)], block=False),
        "calls with a future": lambda client, gate: [
            client.submit(add, first, i) for first in [client.submit(wait_for, gate)] for i in range(WAITING)],
    }  # fmt: skip
    for name, submit in submits.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            SchedulerClusterCombo(2, logging_level="ERROR") as combo,
            Client(combo.get_address()) as client,
        ):
            before = resident_bytes(combo, client)
            kept = submit(client, f"{folder}/gate")
            after = resident_bytes(combo, client)
            each = ", ".join(f"{kind} {(after[kind] - before[kind]) / WAITING:,.0f}" for kind in after)
            yield f"bytes for each of {WAITING:,} waiting tasks, {name}", each
            del kept


PARTS = {"sizes": sizes, "order": orders, "fan_out": fan_outs, "system": system}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"what to measure: {', '.join(PARTS)}")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure, shape = options.measure
        print(json.dumps(MEASURES[measure](shape)))
        return
    for part in options.parts or PARTS:
        for name, figure in PARTS[part]():
            print(f"{name:92} {figure}" if part == "fan_out" else f"{name:60} {figure}", flush=True)


if __name__ == "__main__":
    main()
