"""What a row of a map costs: processor time of all processes and rate, with ranges and with one row a task.

    python tests/benchmarks/rows.py                      no-ops and calls of 0.1 and 1 ms, ten blocks each: a minute
    python tests/benchmarks/rows.py --rows 1 64 256      other lengths of ranges
    python tests/benchmarks/rows.py --waiting            bytes of a row that waits, in the scheduler and in the client
    python tests/benchmarks/rows.py --uneven             how long maps take whose rows are not equally long
    python tests/benchmarks/rows.py --waiting --count 10000000 --rows 4096      ten million of them: some minutes
    python tests/benchmarks/rows.py --beside             beside Pool.map, joblib, Ray and Dask, where they are installed
    python tests/benchmarks/rows.py --alone              what makes rows travel alone, and what they cost then

One cluster for each length of ranges, all at the same time; blocks take turns, so that the load of the machine meets
all of them. The smallest block counts: noise only ever adds.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from importlib.util import find_spec
from multiprocessing import Pool
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import psutil

from scaler import Client, SchedulerClusterCombo
from scaler.client import core

WORKERS = 2
WAITING = 200_000
LARGE_BYTES = 16 * 1024
LENGTHS = (1, 64, 256, 500)
ROWS = {0.0: 20_000, 0.1: 5_000, 1.0: 1_000}
"""of a block, by the milliseconds of a row"""


def work(number: int, seconds: float) -> int:
    """Compute for some time, and return the first argument."""
    if seconds:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
    return number


def no_op(number: int) -> int:
    return number


def boxed(number: list[int]) -> int:
    return number[0]


class System:
    """A scheduler, a cluster and a client with one length of ranges."""

    def __init__(self, stack: contextlib.ExitStack, rows: int, **settings: Any) -> None:
        before = set(psutil.Process().children(recursive=True))
        combo = stack.enter_context(SchedulerClusterCombo(n_workers=WORKERS, rows_per_task=rows, **settings))
        self.client = stack.enter_context(Client(combo.get_address()))
        self.client.map(no_op, [(number,) for number in range(1000)])
        self._processes = [each for each in psutil.Process().children(recursive=True) if each not in before]

    def used_seconds(self) -> float:
        """Return the processor time of the client and of all processes behind it; other systems rest."""
        threads = [each for process in self._processes for each in Path(f"/proc/{process.pid}/task").iterdir()]
        used_ns = [int((each / "schedstat").read_text().split()[0]) for each in threads]  # what psutil has is in 10 ms
        return time.process_time() + sum(used_ns) / 1e9


def block(system: System, milliseconds: float, kind: str) -> tuple[float, float]:
    """Run a block. Return microseconds of processor time and of the clock, per row, without those of the calls."""
    count = ROWS[milliseconds]
    if milliseconds:
        function, items = work, [(number, milliseconds / 1000) for number in range(count)]
    elif kind == "plain":
        function, items = no_op, [(number,) for number in range(count)]
    else:
        function, items = boxed, [([number],) for number in range(count)]
    used, began = system.used_seconds(), time.perf_counter()
    assert system.client.map(function, items) == list(range(count))
    took, used = time.perf_counter() - began, system.used_seconds() - used
    return 1e6 * used / count - 1000 * milliseconds, 1e6 * took / count


def compare(lengths: Sequence[int], blocks: int) -> None:
    kinds = [(0.0, "plain"), (0.0, "a list"), (0.1, "plain"), (1.0, "plain")]
    with contextlib.ExitStack() as stack:
        systems = {rows: System(stack, rows) for rows in lengths}
        print("| a row takes | arguments | rows a task | processor time beside it, us | clock, us | rows/s |")
        print("|---|---|---:|---:|---:|---:|")
        for milliseconds, kind in kinds:
            best = {rows: (float("inf"), float("inf")) for rows in lengths}
            for _ in range(blocks):
                for rows, system in systems.items():
                    used, took = block(system, milliseconds, kind)
                    best[rows] = min(best[rows][0], used), min(best[rows][1], took)
            for rows, (used, took) in best.items():
                name = f"{milliseconds:g} ms" if milliseconds else "nothing"
                print(f"| {name} | {kind} | {rows} | {used:.2f} | {took:.2f} | {1e6 / took:,.0f} |", flush=True)


def large(number: int) -> bytes:
    return bytes(LARGE_BYTES)


def alone(blocks: int) -> None:
    """Run maps with what makes their rows travel alone, in turn. The smallest processor time of each counts."""
    many = 10**9
    cases: dict[str, tuple[Callable[[int], object], dict[str, Any], dict[str, Any]]] = {
        "nothing: in ranges": (no_op, {}, {}),
        "`rows_per_task=1`": (no_op, {"rows": 1}, {}),
        "`at_most_once`": (no_op, {}, {"at_most_once": True}),
        "capabilities": (no_op, {"capabilities": {"seats": 1000}}, {"capabilities": {"seats": 1}}),
        "`profiling`": (no_op, {}, {"profiling": True}),
        "`max_number_of_tasks_waiting`": (no_op, {"max_number_of_tasks_waiting": many}, {}),
        "`max_tasks_per_processor`": (no_op, {"max_tasks_per_processor": many}, {}),
        "`processor_memory_bytes`": (no_op, {"processor_memory_bytes": 2**40}, {}),
        "results of 16 KiB": (large, {}, {}),
        "the same, `rows_per_task=1`": (large, {"rows": 1}, {}),
    }
    print("| rows with | processor time of a row, us |\n|---|---:|")
    with contextlib.ExitStack() as stack:
        systems = {name: System(stack, **{"rows": 256, **settings}) for name, (_, settings, _) in cases.items()}
        best = dict.fromkeys(systems, float("inf"))
        for _ in range(blocks):
            for name, system in systems.items():
                function, _, options = cases[name]
                count = ROWS[0.0 if function is no_op else 0.1]
                used = system.used_seconds()
                for _ in system.client.options(**options).map_unordered(function, [(row,) for row in range(count)]):
                    pass
                best[name] = min(best[name], 1e6 * (system.used_seconds() - used) / count)
        for name, used in best.items():
            print(f"| {name} | {used:.1f} |", flush=True)


def uneven(lengths: Sequence[int], blocks: int) -> None:
    """Time maps of naps on two workers, beside the time that they take at least. Medians of all blocks."""
    short, chance = [0.0005] * 2000, random.Random(0)
    kinds = {
        "even": short,
        "a long one in the middle": [*short[:1000], 1.0, *short[1000:]],
        "a long one at the end": [*short, 1.0],
        "a heavy tail": [min(1.0, 0.0005 * chance.paretovariate(1.1)) for _ in range(1500)],
        "ever longer": [0.00001 * number for number in range(600)],
    }
    with contextlib.ExitStack() as stack:
        systems = {rows: System(stack, rows) for rows in lengths}
        print("| naps | rows a task | seconds | at least |")
        print("|---|---:|---:|---:|")
        for name, naps in kinds.items():
            items = [(nap,) for nap in naps]
            times: dict[int, list[float]] = {rows: [] for rows in lengths}
            for _ in range(blocks):
                for rows, system in systems.items():
                    began = time.perf_counter()
                    system.client.map(time.sleep, items)
                    times[rows].append(time.perf_counter() - began)
            for rows in lengths:
                least = max(sum(naps) / WORKERS, *naps)
                print(f"| {name} | {rows} | {statistics.median(times[rows]):.3f} | {least:.3f} |", flush=True)


def uneven_row(number: int) -> int:
    """Take 2 ms once in a hundred calls, and otherwise nothing."""
    return work(number, 0.002 if number % 100 == 7 else 0.0)


def size_of(argument: bytes) -> int:
    return len(argument)


Map: TypeAlias = Callable[[Callable[..., Any], list[tuple[Any, ...]]], object]


def _pool(stack: contextlib.ExitStack) -> Map:
    pool = stack.enter_context(Pool(WORKERS))
    return lambda function, items: pool.starmap(function, items, chunksize=64)


def _here(stack: contextlib.ExitStack) -> Map:
    return stack.enter_context(Client(stack.enter_context(SchedulerClusterCombo(n_workers=WORKERS)).get_address())).map


def _joblib(_stack: contextlib.ExitStack) -> Map:
    from joblib import Parallel, delayed

    return lambda function, items: Parallel(n_jobs=WORKERS, backend="loky")(delayed(function)(*row) for row in items)


def _ray(stack: contextlib.ExitStack) -> Map:
    import ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    stack.callback(ray.shutdown)
    return lambda function, items: ray.get([remote.remote(*row) for remote in (ray.remote(function),) for row in items])


def _dask(stack: contextlib.ExitStack) -> Map:
    import distributed

    client = distributed.Client(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None)
    stack.callback(client.shutdown)
    return lambda function, items: client.gather(client.map(function, *zip(*items, strict=True), pure=False))


PEERS: dict[str, tuple[str, Callable[[contextlib.ExitStack], Map], int]] = {
    "here": ("scaler", _here, 1),
    "Pool, chunksize 64": ("multiprocessing", _pool, 1),
    "joblib": ("joblib", _joblib, 1),
    "Ray": ("ray", _ray, 10),
    "Dask": ("distributed", _dask, 20),
}
"""what each is called, its module, which need not be there, what starts it, and of how many rows it gets one"""


def _used_seconds() -> float:
    """Return the processor time of this process and of all below it; one that ends meanwhile counts as nothing."""
    used = time.process_time()
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            used += sum(each.cpu_times()[:2])
    return used


def beside(blocks: int) -> None:
    """Run the same maps here and elsewhere, one system after the other. The best block of each counts.

    Rows take time of the clock: while others use the cores, their processor time is less, and what is beside it may
    seem to be less than nothing.
    """
    cases: list[tuple[str, float, Callable[..., Any], list[tuple[Any, ...]]]] = [
        (f"{ms:g} ms", ms, work, [(number, ms / 1000) for number in range(int(10_000 / (1 + 20 * ms)))])
        for ms in (0.0, 0.1, 1.0, 10.0)
    ]
    cases.append(("2 ms once in 100", 0.02, uneven_row, [(number,) for number in range(5_000)]))
    for kilobytes in (1, 16, 64):
        data = [(bytes([number % 256]) * (1024 * kilobytes),) for number in range(8_000 // kilobytes)]
        cases.append((f"nothing, {kilobytes} kB each", 0.0, size_of, data))
    print("| a row | system | rows/s | processor time beside it, us |\n|---|---|---:|---:|")
    for system, (module, start, part) in PEERS.items():
        if find_spec(module) is None:
            print(f"{system} is not installed", flush=True)
            continue
        with contextlib.ExitStack() as stack:
            map_ = start(stack)
            map_(size_of, [(b"",)] * 100)
            for name, ms, function, all_items in cases:
                items = all_items[: max(50, len(all_items) // part)]
                best, least = 0.0, float("inf")
                for _ in range(blocks):
                    used, began = _used_seconds(), time.perf_counter()
                    map_(function, items)
                    best = max(best, len(items) / (time.perf_counter() - began))
                    least = min(least, 1e6 * (_used_seconds() - used) / len(items) - 1000 * ms)
                print(f"| {name} | {system} | {best:,.0f} | {least:.1f} |", flush=True)


def waiting(lengths: Sequence[int], count: int) -> None:
    print("| rows a task | rows that wait | bytes of one in the scheduler | in the client | MiB of the scheduler |")
    print("|---:|---:|---:|---:|---:|")
    for rows in lengths:
        settings = {"rows_per_task": rows}
        settings.update(dict.fromkeys(("client_tasks", "open_tasks"), 2 * count))
        settings.update(dict.fromkeys(("client_bytes", "open_bytes"), 2**40))
        settings["per_worker_queue_size"] = max(1000, rows)
        with SchedulerClusterCombo(n_workers=1, **settings) as combo, Client(combo.get_address()) as client:
            client.map(no_op, [(number,) for number in range(1000)])
            busy = client.submit(time.sleep, 3600)  # the only worker has something to do
            scheduler = next(
                each
                for each in psutil.Process().children(recursive=True)
                if "scaler_scheduler" in " ".join(each.cmdline())
            )
            items = [(number,) for number in range(count)]
            before = [each.memory_info().rss for each in (scheduler, psutil.Process())]
            map_ = threading.Thread(target=_until_cancelled, args=(client, items, 2 * count))
            map_.start()
            while client.info().waiting_tasks < 0.99 * count:
                time.sleep(0.1)
            after = [each.memory_info().rss for each in (scheduler, psutil.Process())]
            per_row = [f"{(now - then) / count:.1f}" for then, now in zip(before, after, strict=True)]
            print(f"| {rows} | {count:,} | {per_row[0]} | {per_row[1]} | {after[0] / 2**20:.0f} |", flush=True)
            busy.cancel()
            client.clear()
            map_.join()


def _until_cancelled(client: Client, items: Sequence[tuple[int]], window: int) -> None:
    with contextlib.suppress(CancelledError), patch.object(core, "MAP_WINDOW", window):
        client.map(no_op, items, window=window)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=LENGTHS, help="lengths of ranges (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=10, help="how many blocks of each (default: 10)")
    parser.add_argument("--waiting", action="store_true", help="measure memory instead")
    parser.add_argument("--uneven", action="store_true", help="time maps of uneven rows instead")
    parser.add_argument("--count", type=int, default=WAITING, help="how many rows wait (default: %(default)s)")
    parser.add_argument("--alone", action="store_true", help="measure what makes rows travel alone")
    parser.add_argument("--beside", action="store_true", help="compare with Pool.map, joblib, Ray and Dask")
    options = parser.parse_args()
    if options.uneven:
        uneven(options.rows, options.blocks)
    elif options.waiting:
        waiting(options.rows, options.count)
    elif options.alone:
        alone(options.blocks)
    elif options.beside:
        beside(min(options.blocks, 3))
    else:
        compare(options.rows, options.blocks)


if __name__ == "__main__":
    main()
