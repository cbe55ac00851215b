"""Transfers: a large value over one slow connection in each direction, and a no-op's round trip through it meanwhile.

Real processes on this machine, without shared memory. The client or the cluster reaches the scheduler through a proxy
that lets so many bytes pass a second in each direction; all other connections are as fast as the machine is.

python tests/benchmarks/transfers.py
python tests/benchmarks/transfers.py --megabytes 20 --rate 10 --gigabytes 0 --json
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from typing import Any

from scaler import Client
from scaler.wire.session.transfer import WINDOW_BYTES
from tests.support.processes import command, scheduler
from tests.support.proxy import Proxy

MEGABYTE = 1_000_000
QUIET_SECONDS = 3.0
"""Round trips are measured for so long when nothing else travels."""
PAUSE_SECONDS = 0.01
"""A no-op is submitted so often, whether those before it have ended or not."""
BURST, BURST_MEGABYTES = 20, 5
SPARE_MS = 50

CLIENT, CLUSTER = "client", "cluster"


def length(data: bytes) -> int:
    return len(data)


def time_started(_data: bytes) -> float:
    return time.time()


@contextmanager
def system(slow: str, rate: float | None) -> Iterator[tuple[Client, Proxy]]:
    """Run a system; `slow` is who has the slow connection."""
    os.environ["SCALER_SHARED_MEMORY"] = "0"
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(None))
        proxy = stack.enter_context(Proxy(address, rate))
        stack.enter_context(command("cluster", proxy.address if slow == CLUSTER else address, "-n", "2"))
        client = stack.enter_context(Client(proxy.address if slow == CLIENT else address))
        client.submit(length, b"").result(60)
        yield client, proxy


def round_trips(client: Client, is_over: Callable[[], bool]) -> list[float]:
    """Return the seconds of round trips, sorted."""
    seconds: list[float] = []
    futures = []
    due = time.perf_counter()
    while not is_over():
        began = time.perf_counter()
        future = client.submit(abs, -1)
        future.add_done_callback(lambda _, began=began: seconds.append(time.perf_counter() - began))
        futures.append(future)
        due += PAUSE_SECONDS
        time.sleep(max(0.0, due - time.perf_counter()))
    wait(futures, 60)
    return sorted(seconds)


def row(way: str, size: int, seconds: float, n_bytes: int, trips: list[float], rate: float) -> dict[str, Any]:
    window_ms = 1000 * WINDOW_BYTES / rate if size else 0.0
    return {
        "way": way,
        "seconds": round(seconds, 2),
        "bytes over the slow connection": n_bytes,
        "times the size": round(n_bytes / size, 3) if size else None,
        "round trips": len(trips),
        "p50 ms": round(1000 * trips[len(trips) // 2], 1),
        "p99 ms": round(1000 * trips[len(trips) * 99 // 100], 1),
        "p99 may be": round(SPARE_MS + window_ms),
    }


def measure(client: Client, proxy: Proxy, size: int, way: str, begin: Callable[[], Future[Any]], rate: float) -> Any:
    """Let a value travel, with round trips meanwhile."""
    place = 0 if way.startswith((CLIENT, "agent")) else 1
    before = proxy.n_bytes[place]
    ended: list[float] = []
    began = time.perf_counter()
    future = begin()
    future.add_done_callback(lambda _: ended.append(time.perf_counter()))
    trips = round_trips(client, lambda: bool(ended))
    future.result(600)
    return row(way, size, ended[0] - began, proxy.n_bytes[place] - before, trips, rate)


def both_ways(slow: str, size: int, rate: float) -> Iterator[dict[str, Any]]:
    """Measure the slow connection of a client or of a cluster, in both directions."""
    to, back = (
        ("client to scheduler", "scheduler to client")
        if slow == CLIENT
        else ("scheduler to agent", "agent to scheduler")
    )
    with system(slow, rate) as (client, proxy):
        began = time.perf_counter()
        trips = round_trips(client, lambda: time.perf_counter() - began > QUIET_SECONDS)
        yield row(f"nothing; slow {slow}", 0, 0.0, 0, trips, rate)
        yield measure(client, proxy, size, to, lambda: client.submit(length, bytes(size)), rate)
        yield measure(client, proxy, size, back, lambda: client.submit(bytes, size), rate)


def burst(rate: float) -> str:
    """Say when the tasks of a burst of large arguments start."""
    size = BURST_MEGABYTES * MEGABYTE
    with system(CLIENT, rate) as (client, _):
        began = time.time()
        futures = [client.submit(time_started, bytes(size)) for _ in range(BURST)]
        starts = sorted(future.result(600) - began for future in futures)
    return (
        f"{BURST} arguments of {BURST_MEGABYTES} MB at once: the first task starts after {starts[0]:.2f} s, the last "
        f"after {starts[-1]:.2f} s; their bytes take {size / rate:.2f} and {BURST * size / rate:.2f} s"
    )


def without_bound(gigabytes: float) -> str:
    """Say how long a very large result takes when only the machine is in its way."""
    size = int(gigabytes * 1000 * MEGABYTE)
    with system(CLIENT, None) as (client, proxy):
        began = time.perf_counter()
        assert len(client.submit(bytes, size).result(1200)) == size
        seconds = time.perf_counter() - began
        return f"a result of {gigabytes:g} GB: {seconds:.1f} s; {proxy.n_bytes[1] / size:.3f} times its size"


def as_table(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for each in rows:
        cells = (
            "" if value is None else f"{value:,}" if isinstance(value, int) else str(value) for value in each.values()
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100, help="of the value (default: 100)")
    parser.add_argument("--rate", type=float, default=10, help="MB a second in each direction (default: 10)")
    parser.add_argument("--gigabytes", type=float, default=3, help="of the very large result (default: 3; 0: none)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    size, rate = options.megabytes * MEGABYTE, options.rate * MEGABYTE
    rows = [each for slow in (CLIENT, CLUSTER) for each in both_ways(slow, size, rate)]
    said = [burst(rate), *([without_bound(options.gigabytes)] if options.gigabytes else [])]
    if options.json:
        print(json.dumps({"window": WINDOW_BYTES, "rate": rate, "rows": rows, "also": said}))
        return
    window_ms = 1000 * WINDOW_BYTES / rate
    print(f"{options.megabytes} MB at {options.rate:g} MB/s; a window takes {window_ms:.0f} ms\n\n{as_table(rows)}\n")
    print("\n".join(f"- {each}" for each in said))


if __name__ == "__main__":
    main()
