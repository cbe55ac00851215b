"""Memory and large objects: what is left of a million tasks and a thousand clients, and how long gigabytes take.

    python tests/benchmarks/memory.py                     all figures: some minutes, up to 6 GB of memory
    python tests/benchmarks/memory.py tasks clients       some of them

Resident memory is that of one process, without what it shares with others, after the process has come to rest. Memory
that comes back to its baseline may still be some MB above it: an interpreter keeps pages in which anything is left.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
from _kinds import kind_of

from scaler import Client, SchedulerClusterCombo

MB = 1_000_000
FUNCTION_BYTES = 500 * MB
FUNCTION_TASKS = 10_000
PAYLOAD_BYTES = 600 * MB
SETTLE_SECONDS = 12
"""Garbage is collected every second in the processors, and every five in the scheduler."""
N_TASKS = 1_000_000
N_CLIENTS = 1_000

Rows = Iterator[tuple[str, str]]


def echo(value: Any) -> Any:
    return value


def pick(data: bytes, index: int) -> tuple[int, int]:
    return data[index], os.getpid()


class System:
    """A scheduler, an agent with two workers, and a client; processes by their kind."""

    def __init__(self) -> None:
        self.combo = SchedulerClusterCombo(
            2, logging_level="ERROR", garbage_collect_interval_seconds=1, object_retention_seconds=1
        )
        self.address = self.combo.get_address()
        self.client = Client(self.address)
        self.client.map(echo, [(i,) for i in range(1000)])

    def close(self) -> None:
        self.client.disconnect()
        self.combo.shutdown()

    def resident_mb(self) -> dict[str, float]:
        """Return the memory of each kind of process, private part, in MB."""
        kinds = {"client": [psutil.Process()], "scheduler": [], "agent": [], "processors": []}
        for process in psutil.Process().children(recursive=True):
            kind = kind_of(process)
            if kind != "processors" or process.children() == []:  # and not the fork server
                kinds[kind].append(process)
        return {kind: sum(map(_private_mb, processes)) for kind, processes in kinds.items()}

    def growth(self, program: Callable[[], Any]) -> Iterator[tuple[str, float, float]]:
        """Run a program and return, for each kind of process, its memory before, and how much more it has after."""
        before = self.resident_mb()
        program()
        time.sleep(SETTLE_SECONDS)
        after = self.resident_mb()
        for kind, was in before.items():
            yield kind, was, after[kind] - was


def _private_mb(process: psutil.Process) -> float:
    memory = process.memory_info()
    return (memory.rss - getattr(memory, "shared", 0)) / MB


def tasks(system: System) -> Rows:
    """A million tasks, then as many submits and large results as make up an afternoon."""

    def run() -> None:
        system.client.map(echo, ((i,) for i in range(N_TASKS)))

    def run_others() -> None:
        for _ in range(10):
            futures = [system.client.submit(echo, i) for i in range(10_000)]
            assert sum(future.result() for future in futures) == sum(range(10_000))
            large = [system.client.submit(bytes, 100_000) for _ in range(200)]
            assert sum(len(future.result()) for future in large) == 200 * 100_000
            unread = [system.client.submit(bytes, 100_000) for _ in range(200)]
            assert all(future.exception() is None for future in unread)

    for title, program in ((f"map of {N_TASKS:,}", run), ("100,000 submits, 4,000 large results", run_others)):
        for kind, before, more in system.growth(program):
            yield f"{title}: {kind}", f"{before:.0f} MB {more:+.1f} MB"


def clients(system: System) -> Rows:
    """A thousand clients, one after the other; each leaves something open, stored and unread."""

    def run() -> None:
        for number in range(N_CLIENTS):
            with Client(system.address) as client:
                reference = client.send_object(os.urandom(200_000))
                futures = [client.submit(lambda data, n=number: len(data) + n, reference) for _ in range(5)]
                futures += [client.submit(echo, bytes(100_000)) for _ in range(5)]
                assert futures[0].result() == 200_000 + number
                client.submit(time.sleep, 0.01)  # left open

    for kind, before, more in system.growth(run):
        yield f"{N_CLIENTS:,} clients: {kind}", f"{before:.0f} MB {more:+.1f} MB"


def function(system: System) -> Rows:
    """A function with half a gigabyte in it, mapped over thousands of inputs."""
    data = os.urandom(MB) * (FUNCTION_BYTES // MB)
    before = _loopback_bytes()
    start = time.perf_counter()
    answers = system.client.map(functools.partial(pick, data), [(index,) for index in range(FUNCTION_TASKS)])
    seconds = time.perf_counter() - start
    assert [answer for answer, _ in answers] == list(data[:FUNCTION_TASKS])
    yield f"function of {FUNCTION_BYTES // MB} MB over {FUNCTION_TASKS:,} inputs", f"{seconds:.1f} s"
    yield "... sent to the scheduler and to the node, together", f"{(_loopback_bytes() - before) / MB:,.0f} MB"
    yield "... executed by", f"{len({pid for _, pid in answers})} processes"


def _loopback_bytes() -> int:
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_recv)


def payload(system: System) -> Rows:
    """More than what fits into a field of Cap'n Proto, there and back."""
    data = os.urandom(MB) * (PAYLOAD_BYTES // MB)
    start = time.perf_counter()
    assert system.client.submit(len, data).result() == PAYLOAD_BYTES
    yield f"argument of {PAYLOAD_BYTES // MB} MB", f"{time.perf_counter() - start:.1f} s"
    start = time.perf_counter()
    assert system.client.submit(echo, data).result() == data
    yield f"argument and result of {PAYLOAD_BYTES // MB} MB", f"{time.perf_counter() - start:.1f} s"
    del data
    time.sleep(SETTLE_SECONDS)
    for kind, resident in system.resident_mb().items():
        yield f"memory afterwards: {kind}", f"{resident:.0f} MB"


FIGURES: dict[str, Callable[[System], Rows]] = {
    "tasks": tasks,
    "clients": clients,
    "function": function,
    "payload": payload,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"{', '.join(FIGURES)} (default: all)")
    options = parser.parse_args()
    unknown = set(options.figures) - set(FIGURES)
    if unknown:
        parser.error(f"unknown figures: {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    print(f"| {'what':52} | {'measured':>18} |\n|{'-' * 54}|{'-' * 19}:|")
    for name in options.figures or FIGURES:
        system = System()
        try:
            for what, measured in FIGURES[name](system):
                print(f"| {what:52} | {measured:>18} |", flush=True)
        finally:
            system.close()


if __name__ == "__main__":
    main()
