"""The pairs of the page on tuning: the same work, written in two ways or with two settings, on two workers.

python tests/benchmarks/tuning.py                       all pairs, the best of three each: about a minute
python tests/benchmarks/tuning.py --only "tiny calls"
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from scaler import Client, SchedulerClusterCombo

WORKERS = 2
MB = 1_000_000
Program = Callable[[Client], object]


class Way(NamedTuple):
    """One of the two ways of a pair."""

    what: str
    run: Program
    settings: dict[str, Any] = {}  # noqa: RUF012 - of the cluster; nobody changes it


def one_by_one(client: Client) -> None:
    for number in range(1_000):
        client.submit(abs, number).result()


def submitted(client: Client) -> None:
    wait([client.submit(abs, number) for number in range(20_000)])


def mapped(count: int) -> Program:
    return lambda client: client.map(abs, [(number,) for number in range(count)])


def many_roots(start: int, end: int) -> float:
    return sum(math.sqrt(number) for number in range(start, end))


def in_tasks_of(size: int) -> Program:
    return lambda client: sum(client.map(many_roots, [(n, n + size) for n in range(0, 50_000, size)]))


def length(data: bytes, _number: int) -> int:
    return len(data)


def as_an_argument(client: Client) -> None:
    data = bytes(20 * MB)
    wait([client.submit(length, data, number) for number in range(40)])


def as_an_object(client: Client) -> None:
    reference = client.send_object(bytes(20 * MB))
    client.map(length, [(reference, number) for number in range(40)])


def each_for_itself(client: Client) -> None:
    function = partial(length, bytes(20 * MB))
    wait([client.submit(function, number) for number in range(20)])


def all_at_once(client: Client) -> None:
    client.map(partial(length, bytes(20 * MB)), [(number,) for number in range(20)])


def waits(client: Client) -> None:
    client.map(time.sleep, [(0.02,)] * 200)


def long_one(place: str) -> Program:
    short = [(0.01,)] * 60
    items = [(0.6,), *short] if place == "first" else [*short, (0.6,)]
    return lambda client: client.map(time.sleep, items)


def import_much(_number: int) -> None:
    import asyncio
    import email.mime.text
    import sqlite3
    import unittest.mock
    import xml.dom.minidom

    assert all((asyncio, email, sqlite3, unittest, xml))


def imports(client: Client) -> None:
    client.map(import_much, [(number,) for number in range(40)])


HEAVY = ["asyncio", "email.mime.text", "sqlite3", "unittest.mock", "xml.dom.minidom"]
FRESH = {"max_tasks_per_processor": 1}
PAIRS: dict[str, tuple[Way, Way]] = {
    "waiting for each result": (Way("`submit(...).result()`, 1,000 times", one_by_one), Way("`map`", mapped(1_000))),
    "submit or map": (Way("20,000 `submit`, then `wait`", submitted), Way("`map`", mapped(20_000))),
    "tiny calls": (Way("50,000 calls, a task each", in_tasks_of(1)), Way("100 calls in a task", in_tasks_of(100))),
    "large argument": (Way("20 MB as an argument of 40 `submit`", as_an_argument), Way("`send_object`", as_an_object)),
    "function with data": (
        Way("a `partial` of 20 MB, 20 times `submit`", each_for_itself),
        Way("`map`: it is pickled once", all_at_once),
    ),
    "tasks that wait": (
        Way("200 tasks that wait 20 ms for something, 2 workers", waits),
        Way("16 workers", waits, {"n_workers": 16}),
    ),
    "uneven tasks": (
        Way("the long task is the last of 61", long_one("last")),
        Way("the long task is the first", long_one("first")),
    ),
    "slow imports": (
        Way("40 fresh worker processes that import much", imports, FRESH),
        Way("`preload` of the modules", imports, {**FRESH, "preload": HEAVY}),
    ),
}


@contextmanager
def cluster(settings: dict[str, Any]) -> Iterator[Client]:
    settings = {"n_workers": WORKERS, "logging_level": "ERROR", **settings}
    with SchedulerClusterCombo(**settings) as combo, Client(combo.get_address()) as client:
        client.wait_for_workers(settings["n_workers"])
        client.map(abs, [(-1,)] * 200)
        yield client


def seconds_of(way: Way, client: Client) -> float:
    start = time.perf_counter()
    way.run(client)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="how often each way is measured; the best counts")
    parser.add_argument("--only", choices=PAIRS, nargs="+", default=list(PAIRS))
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores\n\n| | one way | seconds | the other | seconds | times |\n|---|---|--:|---|--:|--:|")
    for name in options.only:
        pair = PAIRS[name]
        with cluster(pair[0].settings) as first, cluster(pair[1].settings) as second:
            turns = [(seconds_of(pair[0], first), seconds_of(pair[1], second)) for _ in range(options.repeats)]
        before, after = (min(times) for times in zip(*turns, strict=True))
        print(
            f"| {name} | {pair[0].what} | {before:.3f} | {pair[1].what} | {after:.3f} | {before / after:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
