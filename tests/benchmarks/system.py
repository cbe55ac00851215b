"""The whole system, end to end: a scheduler, an agent with two workers and a client, as users have them on one machine.

    python tests/benchmarks/system.py                     all figures
    python tests/benchmarks/system.py map latency         some of them
    python tests/benchmarks/system.py --event-loop uvloop

Rates are tasks per second, the best of several runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
from _kinds import kind_of

from scaler import Client, SchedulerClusterCombo


def noop(x: Any) -> Any:
    return x


def length(data: Any) -> int:
    return len(data)


def best(program: Callable[[], Any], repeats: int) -> float:
    """Return the shortest time of some runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        program()
        times.append(time.perf_counter() - start)
    return min(times)


class System:
    """What the figures are measured on."""

    def __init__(self, n_workers: int, event_loop: str, repeats: int) -> None:
        self.repeats = repeats
        self.start = time.perf_counter()
        self.combo = SchedulerClusterCombo(n_workers, event_loop=event_loop, logging_level="ERROR")
        self.client = Client(self.combo.get_address())
        self.client.submit(noop, 1).result()
        self.first_result_seconds = time.perf_counter() - self.start
        self.client.map(noop, [(i,) for i in range(2000)])

    def close(self) -> None:
        self.client.disconnect()
        self.combo.shutdown()

    def check_map(self, count: int) -> None:
        assert sum(self.client.map(noop, ((i,) for i in range(count)))) == sum(range(count))

    def check_submit(self, count: int) -> None:
        futures = [self.client.submit(noop, i) for i in range(count)]
        assert sum(future.result() for future in futures) == sum(range(count))

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor time used so far, by kind of process."""
        used = {"client": sum(psutil.Process().cpu_times()[:2])}
        for process in psutil.Process().children(recursive=True):
            kind = kind_of(process)
            used[kind] = used.get(kind, 0.0) + sum(process.cpu_times()[:2])
        return used


def imports(_system: System) -> Iterator[tuple[str, str, str]]:
    def load() -> None:
        subprocess.run([sys.executable, "-c", "import scaler"], check=True)

    def nothing() -> None:
        subprocess.run([sys.executable, "-c", "pass"], check=True)

    yield "import scaler", f"{(best(load, 5) - best(nothing, 5)) * 1e3:.0f} ms", "< 300 ms"


def start(system: System) -> Iterator[tuple[str, str, str]]:
    yield "cluster to first result", f"{system.first_result_seconds:.2f} s", "< 1.5 s"


def maps(system: System) -> Iterator[tuple[str, str, str]]:
    for count in (5_000, 100_000):
        seconds = best(lambda count=count: system.check_map(count), system.repeats)
        yield f"map of {count:,}", f"{count / seconds:,.0f} /s", ""


def shares(system: System) -> Iterator[tuple[str, str, str]]:
    count = 100_000
    before = system.cpu_seconds()
    system.check_map(count)
    for kind, used in system.cpu_seconds().items():
        yield f"processor time per mapped task: {kind}", f"{(used - before[kind]) / count * 1e6:.1f} us", ""


def growth(system: System) -> Iterator[tuple[str, str, str]]:
    costs = {}
    for count in (10_000, 1_000_000):
        costs[count] = (
            best(lambda count=count: system.check_map(count), system.repeats if count < 100_000 else 1) / count
        )
        yield f"cost per task, map of {count:,}", f"{costs[count] * 1e6:.1f} us", ""
    yield "cost at 1,000,000 / cost at 10,000", f"{costs[1_000_000] / costs[10_000]:.2f}", "< 1.2"


def submits(system: System) -> Iterator[tuple[str, str, str]]:
    for count in (5_000, 50_000):
        seconds = best(lambda count=count: system.check_submit(count), system.repeats)
        yield f"submit {count:,}, then all results", f"{count / seconds:,.0f} /s", ""


def latency(system: System) -> Iterator[tuple[str, str, str]]:
    times = []
    for i in range(1000):
        begin = time.perf_counter()
        system.client.submit(noop, i).result()
        times.append(time.perf_counter() - begin)
    times.sort()
    yield "round trip, median", f"{times[500] * 1e3:.2f} ms", ""
    yield "round trip, 99th percentile", f"{times[990] * 1e3:.2f} ms", ""


def large(system: System) -> Iterator[tuple[str, str, str]]:
    client, data = system.client, os.urandom(100_000_000)
    yield "argument of 100 MB", f"{best(lambda: client.submit(length, data).result(), system.repeats):.3f} s", ""
    yield (
        "argument and result of 100 MB",
        f"{best(lambda: client.submit(noop, data).result(), system.repeats):.3f} s",
        "",
    )

    def share() -> None:
        reference = client.send_object(data)
        futures = [client.submit(length, reference) for _ in range(200)]
        assert sum(future.result() for future in futures) == 200 * len(data)
        client.clear()

    yield "200 tasks share an object of 100 MB", f"{best(share, system.repeats):.3f} s", "< 0.7 s"


def idle(system: System) -> Iterator[tuple[str, str, str]]:
    before = system.cpu_seconds()
    time.sleep(10)
    for kind, used in system.cpu_seconds().items():
        yield f"idle: {kind}", f"{(used - before[kind]) * 10:.2f} %", "< 1 %"


FIGURES: dict[str, Callable[[System], Iterator[tuple[str, str, str]]]] = {
    "import": imports,
    "start": start,
    "map": maps,
    "shares": shares,
    "submit": submits,
    "latency": latency,
    "large": large,
    "growth": growth,
    "idle": idle,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"{', '.join(FIGURES)} (default: all)")
    parser.add_argument("-n", "--workers", type=int, default=2)
    parser.add_argument("--event-loop", choices=("builtin", "uvloop"), default="builtin")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    unknown = set(options.figures) - set(FIGURES)
    if unknown:
        parser.error(f"unknown figures: {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    system = System(options.workers, options.event_loop, options.repeats)
    print(f"| {'what':46} | {'measured':>12} | {'target':>8} |\n|{'-' * 48}|{'-' * 13}:|{'-' * 9}:|")
    try:
        for name in options.figures or FIGURES:
            for what, measured, target in FIGURES[name](system):
                print(f"| {what:46} | {measured:>12} | {target:>8} |", flush=True)
    finally:
        system.close()


if __name__ == "__main__":
    main()
