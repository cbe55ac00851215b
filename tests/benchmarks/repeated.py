"""Repeated values: what one large value costs that many calls of a map have, as processor time of all processes.

python tests/benchmarks/repeated.py                     10 MB, 200 calls, the best of three
python tests/benchmarks/repeated.py --megabytes 1
python tests/benchmarks/repeated.py --handed            a task hands 100 MB of `send_object` on to four tasks of its own

The items of a list hold the value, so it is sent once. A generator may fill one buffer again and again: there, the
value is written for each call. Then the same by `send_object`. With memory that the processes share, and without.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import psutil

from scaler import Client
from scaler.shared_memory import SHARING_VARIABLE

WORKERS = 2
Items = Callable[[Client, Any, int], Any]


def listed(_client: Client, value: Any, calls: int) -> Any:
    return [(value, number) for number in range(calls)]


def generated(_client: Client, value: Any, calls: int) -> Any:
    return ((value, number) for number in range(calls))


def sent(client: Client, value: Any, calls: int) -> Any:
    return listed(client, client.send_object(value), calls)


WAYS: dict[str, Items] = {"a list of items": listed, "a generator": generated, "`send_object`": sent}


def first(value: Any, _number: int) -> float:
    return float(value[0])


def values(size: int) -> dict[str, Any]:
    found: dict[str, Any] = {"bytes": bytes(size)}
    try:
        import numpy as np
    except ImportError:
        return found
    return {"an array": np.zeros(size // 8), **found}


def processor_seconds() -> float:
    """Return what this process and those below it have used."""
    me = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in (me, *me.children(recursive=True)))


def milliseconds_a_call(client: Client, items: Any, calls: int) -> float:
    before = processor_seconds()
    assert client.map(first, items) == [0.0] * calls
    time.sleep(0.2)  # what ends with the map does so now
    return 1000 * (processor_seconds() - before) / calls


def by_map(value: Any) -> float:
    with Client() as inner:
        return sum(inner.map(first, [(value, number) for number in range(4)]))


def by_submit(value: Any) -> float:
    with Client() as inner:
        return sum(future.result() for future in [inner.submit(first, value, number) for number in range(4)])


def hand_on(repeats: int) -> None:
    """Print what it costs a task to hand an object on, as the value and as the reference itself."""
    print(
        f"{os.cpu_count()} cores, ms of processor time and ms for a task\n\n| | the value | `as_is()` |\n|---|--:|--:|"
    )
    for name, value in values(100_000_000).items():
        for split in (by_map, by_submit):
            row = []
            with Client(n_workers=4) as client:
                table = client.send_object(value)
                for argument in (table, table.as_is()):
                    rounds = []
                    for _ in range(repeats + 1):
                        before, began = processor_seconds(), time.monotonic()
                        client.submit(split, argument).result()
                        took = time.monotonic() - began
                        rounds.append((processor_seconds() - before, took))
                    row.append(" and ".join(f"{1000 * min(column[1:]):.0f}" for column in zip(*rounds, strict=True)))
            print(f"| {name}, {split.__name__} | {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--handed", action="store_true", help="a task hands an object on to tasks of its own")
    options = parser.parse_args()
    if options.handed:
        hand_on(options.repeats)
        return
    print(f"{os.cpu_count()} cores, ms of processor time a call\n\n| | {' | '.join(WAYS)} |\n|---|{'--:|' * len(WAYS)}")
    for memory in ("1", "0"):
        os.environ[SHARING_VARIABLE] = memory
        with Client(n_workers=WORKERS) as client:
            for name, value in values(int(options.megabytes * 1e6)).items():
                row = []
                for items in WAYS.values():
                    client.map(first, items(client, value, WORKERS))
                    row.append(
                        min(
                            milliseconds_a_call(client, items(client, value, options.calls), options.calls)
                            for _ in range(options.repeats)
                        )
                    )
                where = "shared memory" if memory == "1" else "no shared memory"
                print(f"| {name}, {where} | {' | '.join(f'{each:.2f}' for each in row)} |", flush=True)


if __name__ == "__main__":
    main()
