"""Clients: `Client` and `AsyncClient` beside each other, block by block, at one local cluster of two workers.

    python tests/benchmarks/clients.py
    python tests/benchmarks/clients.py --blocks 20 --tasks 10000
    python tests/benchmarks/clients.py --uvloop

Each case runs as many blocks with either client, in turns. Lone trips are the medians of all blocks, in microseconds:
one task at a time, submitted and awaited. All else are the medians of tasks per second: futures that are all submitted
before the first one is read, a map, a map that yields results as they arrive, the same of an iterator, and results of
100 kB. `ratio` is asyncio to synchronous, turned so that more than 1 is better: the median of the pairs of blocks.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from scaler import AsyncClient, Client, SchedulerClusterCombo

LARGE_BYTES = 100_000


def noop(x: int) -> int:
    return x


def large(_x: int) -> bytes:
    return bytes(LARGE_BYTES)


def trips(client: Client, count: int) -> float:
    times = []
    for number in range(count):
        start = time.perf_counter()
        client.submit(noop, number).result()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


async def trips_awaited(client: AsyncClient, count: int) -> float:
    times = []
    for number in range(count):
        start = time.perf_counter()
        await client.submit(noop, number)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def rate(call: Callable[[], int], count: int) -> float:
    start = time.perf_counter()
    found = call()
    seconds = time.perf_counter() - start
    assert found == count, (found, count)
    return count / seconds


async def rate_awaited(call: Awaitable[int], count: int) -> float:
    start = time.perf_counter()
    found = await call
    seconds = time.perf_counter() - start
    assert found == count, (found, count)
    return count / seconds


def futures(client: Client, count: int) -> int:
    return len([future.result() for future in [client.submit(noop, number) for number in range(count)]])


async def futures_awaited(client: AsyncClient, count: int) -> int:
    return len(await asyncio.gather(*[client.submit(noop, number) for number in range(count)]))


def read_large(client: Client, count: int) -> int:
    found = [client.submit(large, number) for number in range(count)]
    return sum(len(future.result()) == LARGE_BYTES for future in found)


async def read_large_awaited(client: AsyncClient, count: int) -> int:
    found = [client.submit(large, number) for number in range(count)]
    return sum([len(await future) == LARGE_BYTES for future in found])


def rows(count: int) -> list[tuple[int]]:
    return [(number,) for number in range(count)]


async def mapped(client: AsyncClient, count: int) -> int:
    return len(await client.map(noop, rows(count)))


async def streamed(client: AsyncClient, count: int, *, is_lazy: bool) -> int:
    found = 0
    async for _ in client.map_unordered(noop, iter(rows(count)) if is_lazy else rows(count)):
        found += 1
    return found


Block = tuple[Callable[[], float], Callable[[], Awaitable[float]]]


def cases(client: Client, other: AsyncClient, count: int) -> dict[str, Block]:
    n_large = max(1, count // 50)
    return {
        "lone trip, us": (lambda: trips(client, 300), lambda: trips_awaited(other, 300)),
        "futures": (
            lambda: rate(lambda: futures(client, count), count),
            lambda: rate_awaited(futures_awaited(other, count), count),
        ),
        "map": (
            lambda: rate(lambda: len(client.map(noop, rows(count))), count),
            lambda: rate_awaited(mapped(other, count), count),
        ),
        "stream": (
            lambda: rate(lambda: sum(1 for _ in client.map_unordered(noop, rows(count))), count),
            lambda: rate_awaited(streamed(other, count, is_lazy=False), count),
        ),
        "stream of an iterator": (
            lambda: rate(lambda: sum(1 for _ in client.map_unordered(noop, iter(rows(count)))), count),
            lambda: rate_awaited(streamed(other, count, is_lazy=True), count),
        ),
        "100 kB": (
            lambda: rate(lambda: read_large(client, n_large), n_large),
            lambda: rate_awaited(read_large_awaited(other, n_large), n_large),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=11, help="blocks of each case with either client")
    parser.add_argument("--tasks", type=int, default=10_000, help="tasks of a block")
    parser.add_argument("--uvloop", action="store_true", help="use the event loop of uvloop")
    given = parser.parse_args()
    if given.uvloop:
        import uvloop

        loop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        other = AsyncClient(cluster.get_address())
        loop.run_until_complete(other.connect())
        print("| case | Client | AsyncClient | ratio |\n|---|---|---|---|")
        for name, (call, awaited) in cases(client, other, given.tasks).items():
            mine, others = [], []
            for block in range(given.blocks + 1):
                pair = call(), loop.run_until_complete(awaited())
                if block:  # the first one warms up
                    mine.append(pair[0])
                    others.append(pair[1])
            one, two = statistics.median(mine), statistics.median(others)
            pairs = list(zip(mine, others, strict=True))
            ratio = statistics.median(a / b if name.endswith("us") else b / a for a, b in pairs)
            print(f"| {name} | {one:,.0f} | {two:,.0f} | {ratio:.2f} |", flush=True)
        loop.run_until_complete(other.disconnect())
    loop.close()


if __name__ == "__main__":
    main()
