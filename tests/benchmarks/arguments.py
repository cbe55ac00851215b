"""Arguments and results of middle size: what a call costs with them, as processor time of all processes, beside
`multiprocessing.Pool` of the same number of processes.

python tests/benchmarks/arguments.py                    1,000 calls a map, the best of five, alternated
python tests/benchmarks/arguments.py --calls 300 --sizes 30000 64000

Each value is `bytes`, and belongs to one call. Of large ones there are fewer calls: 64 MB together.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from scaler import Client

WORKERS = 2
BYTES = 64_000_000
"""the most of all values of a map"""
SIZES = (100, 16_000, 30_000, 64_000, 130_000, 250_000, 1_000_000)


def takes(value: bytes, number: int) -> int:
    return len(value) + number


def gives(size: int, number: int) -> bytes:
    return number.to_bytes(8, "little") * (size // 8)


def values(size: int, calls: int) -> list[tuple[bytes, int]]:
    return [(gives(size, number), number) for number in range(calls)]


def sizes(size: int, calls: int) -> list[tuple[int, int]]:
    return [(size, number) for number in range(calls)]


KINDS: dict[str, tuple[Callable[..., Any], Callable[[int, int], list[Any]]]] = {
    "argument": (takes, values),
    "result": (gives, sizes),
}


def processor_seconds() -> float:
    """Return what this process and those below it have used, to the nanosecond."""
    me = psutil.Process()
    processes = (me, *me.children(recursive=True))
    threads = (path for process in processes for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e9


def microseconds_a_call(run: Callable[[], list[Any]], calls: int) -> float:
    before = processor_seconds()
    assert len(run()) == calls
    time.sleep(0.2)  # what ends with the map does so now
    return 1e6 * (processor_seconds() - before) / calls


def measure(client: Client, pool: Any, kind: str, size: int, calls: int, repeats: int) -> list[float]:
    """Return microseconds a call of Scaler and of the pool, each the best of some rounds that take turns."""
    function, make = KINDS[kind]
    items = make(size, calls)
    runs: list[Callable[[], list[Any]]] = [
        lambda: client.map(function, items),
        lambda: pool.starmap(function, items, chunksize=1),
    ]
    for run in runs:
        run()
    rounds = [[microseconds_a_call(run, calls) for run in runs] for _ in range(repeats)]
    return [min(column) for column in zip(*rounds, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, us of processor time a call, {options.calls:,} calls\n")
    print("| | bytes | Scaler | Pool | times |\n|---|--:|--:|--:|--:|")
    with multiprocessing.Pool(WORKERS) as pool, Client(n_workers=WORKERS) as client:
        for kind in options.kinds:
            for size in options.sizes:
                calls = min(options.calls, BYTES // size)
                ours, theirs = measure(client, pool, kind, size, calls, options.repeats)
                print(f"| {kind} | {size:,} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.1f} |", flush=True)


if __name__ == "__main__":
    main()
