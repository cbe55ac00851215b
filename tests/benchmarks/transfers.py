"""Transfers: a large value over a slow connection, and what a no-op's round trip takes through it meanwhile.

Real processes on this machine, without shared memory; client and cluster reach the scheduler through proxies that let
so many bytes pass a second in each direction.

python tests/benchmarks/transfers.py
python tests/benchmarks/transfers.py --megabytes 20 --rate 10 --json
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from scaler import Client
from scaler.wire.transfer import WINDOW_BYTES
from tests.support.processes import command, scheduler
from tests.support.proxy import Proxy

MEGABYTE = 1_000_000
ENOUGH = 200
"""Round trips that are measured when nothing else travels."""


def length(data: bytes) -> int:
    return len(data)


@contextmanager
def system(rate: float) -> Iterator[tuple[Client, Proxy, Proxy]]:
    os.environ["SCALER_SHARED_MEMORY"] = "0"
    with (
        scheduler(None) as (address, _),
        Proxy(address, rate) as near_client,
        Proxy(address, rate) as near_cluster,
        command("cluster", near_cluster.address, "-n", "2"),
        Client(near_client.address) as client,
    ):
        client.submit(length, b"").result(60)
        yield client, near_client, near_cluster


def round_trips(client: Client, is_over: Callable[[list[float]], bool]) -> list[float]:
    seconds: list[float] = []
    while not is_over(seconds):
        began = time.perf_counter()
        client.submit(abs, -1).result(60)
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)


def row(name: str, size: int, seconds: float, n_bytes: int, trips: list[float]) -> dict[str, Any]:
    return {
        "way": name,
        "seconds": round(seconds, 2),
        "bytes over the slow connections": n_bytes,
        "times the size": round(n_bytes / size, 3) if size else None,
        "round trips": len(trips),
        "p50 ms": round(1000 * trips[len(trips) // 2], 1),
        "p99 ms": round(1000 * trips[len(trips) * 99 // 100], 1),
    }


def measure(
    client: Client, proxies: tuple[Proxy, Proxy], size: int, name: str, begin: Callable[[], Future[Any]]
) -> Any:
    before = sum(sum(proxy.n_bytes) for proxy in proxies)
    ended: list[float] = []
    began = time.perf_counter()
    future = begin()
    future.add_done_callback(lambda _: ended.append(time.perf_counter()))
    trips = round_trips(client, lambda _: future.done())
    future.result(600)
    seconds = ended[0] - began if ended else time.perf_counter() - began
    return row(name, size, seconds, sum(sum(proxy.n_bytes) for proxy in proxies) - before, trips)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100, help="of the value (default: 100)")
    parser.add_argument("--rate", type=float, default=10, help="MB a second in each direction (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    size, rate = options.megabytes * MEGABYTE, options.rate * MEGABYTE
    with system(rate) as (client, near_client, near_cluster):
        proxies = near_client, near_cluster
        rows = [row("nothing else", 0, 0.0, 0, round_trips(client, lambda seconds: len(seconds) == ENOUGH))]
        up = measure(
            client, proxies, size, "argument: client, scheduler, agent", lambda: client.submit(length, bytes(size))
        )
        made = client.submit(bytes, size)
        down = measure(client, proxies, size, "result: agent, scheduler, client", lambda: made)
        rows += [up, down]
    if options.json:
        print(json.dumps({"window": WINDOW_BYTES, "rate": rate, "rows": rows}))
        return
    print(f"{options.megabytes} MB at {options.rate:g} MB/s; a window takes {1000 * WINDOW_BYTES / rate:.0f} ms\n")
    names = list(rows[0])
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for each in rows:
        print(
            "| "
            + " | ".join(
                "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
                for value in each.values()
            )
            + " |"
        )


if __name__ == "__main__":
    main()
