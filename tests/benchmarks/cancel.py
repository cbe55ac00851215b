"""Cancel: how soon a worker is free again, and what a storm of cancels costs and leaves behind. Real processes.

    python tests/benchmarks/cancel.py             all figures
    python tests/benchmarks/cancel.py --tasks 50000

A storm is: so many submits of a task that would take an hour, all cancelled, then a submit that must run. The rate of a
map after some storms is compared with that before.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time

import psutil

from scaler import Client, SchedulerClusterCombo

STORMS = 5
MAPPED = 50_000


def noop(number: int) -> int:
    return number


def resist() -> None:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(3600)


def free_again(client: Client, function: object, repeats: int) -> float:
    """Return the median of the seconds from a cancel to the result of the task behind it."""
    times = []
    for _ in range(repeats):
        running = client.submit(function)  # type: ignore[arg-type]
        time.sleep(0.1)
        behind = client.submit(os.getpid)
        start = time.perf_counter()
        running.cancel()
        behind.result()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def storm(client: Client, n_tasks: int) -> tuple[float, float, float]:
    """Return the seconds to submit, to cancel, and until a task that comes then has run."""
    times = [time.perf_counter()]
    futures = [client.submit(time.sleep, 3600) for _ in range(n_tasks)]
    times.append(time.perf_counter())
    assert all(future.cancel() for future in futures)
    times.append(time.perf_counter())
    assert client.submit(noop, 1).result() == 1
    times.append(time.perf_counter())
    return times[1] - times[0], times[2] - times[1], times[3] - times[2]


def map_rate(client: Client) -> float:
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        client.map(noop, ((number,) for number in range(MAPPED)))
        rates.append(MAPPED / (time.perf_counter() - start))
    return max(rates)


def resident_megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


def show(what: str, value: str) -> None:
    print(f"| {what:58} | {value:>14} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000, help="tasks in a storm (default: 10000)")
    options = parser.parse_args()
    with SchedulerClusterCombo(1, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
        show("what", "measured")
        print(f"|{'-' * 60}|{'-' * 15}:|")
        show("from the cancel of a sleeping task to the next result", f"{free_again(client, sleep, 21) * 1e3:.1f} ms")
        show("the same, of one that resists", f"{free_again(client, resist, 3) * 1e3:.0f} ms")
    with SchedulerClusterCombo(2, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
        scheduler = next(
            child for child in psutil.Process().children() if "scaler_scheduler" in " ".join(child.cmdline())
        )
        before = map_rate(client)
        megabytes = resident_megabytes(scheduler)
        rounds = [storm(client, options.tasks) for _ in range(STORMS)]
        for place, name in enumerate(("submit", "cancel", "first result after")):
            show(f"storm of {options.tasks:,}: {name}", f"{min(times[place] for times in rounds) * 1e3:,.0f} ms")
        show(f"map of {MAPPED:,} before", f"{before:,.0f} /s")
        show(f"map of {MAPPED:,} after {STORMS} storms", f"{map_rate(client):,.0f} /s")
        show("memory of the scheduler, more than before", f"{resident_megabytes(scheduler) - megabytes:,.1f} MB")


def sleep() -> None:
    time.sleep(3600)


if __name__ == "__main__":
    main()
