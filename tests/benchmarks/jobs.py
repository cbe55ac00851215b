"""What a name costs a map: rows of 0, 1 and 10 ms, with and without `job=`, at a scheduler with two workers.

    python tests/benchmarks/jobs.py                    some half a minute; pairs of one run
    python tests/benchmarks/jobs.py --folder /scratch  the disk to use, else /var/tmp
    python tests/benchmarks/jobs.py --attach 200000    another client reads so many rows; memory

Processor time is that of the scheduler process with its clerk.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from scaler import Client, Scheduler
from scaler.cluster.cluster import Cluster

CASES = (0.0, 100_000), (0.001, 4_000), (0.01, 600)
"""seconds of a row, how many there are"""
TIMES = 3
HEAD = "| row | rows | rows/s | with a name | part | scheduler us a row | with a name |\n|---|---|---|---|---|---|---|"


def row(number: int, seconds: float) -> int:
    if seconds:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
    return number


def timed(
    client: Client, process: psutil.Process, items: list[tuple[int, float]], job: str | None
) -> tuple[float, float]:
    begin, cpu = time.perf_counter(), sum(process.cpu_times()[:2])
    assert len(client.map(row, items, job=job)) == len(items)
    return time.perf_counter() - begin, sum(process.cpu_times()[:2]) - cpu


def attach(scheduler: psutil.Process, address: str, n_rows: int) -> None:
    """Print how soon another client has the first result of a job that is kept, and all, and what memory is taken."""
    before = scheduler.memory_info().rss
    with Client(address) as client:
        client.start(row, ((number, 0.0) for number in range(n_rows)), name="many").wait()
    after, me = scheduler.memory_info().rss, psutil.Process()
    mine, begin = me.memory_info().rss, time.perf_counter()
    with Client(address) as other:
        results = other.job("many").results()
        assert next(results) == 0
        first = time.perf_counter() - begin
        assert sum(1 for _ in results) == n_rows - 1
    seconds, read = time.perf_counter() - begin, me.memory_info().rss - mine
    print("| rows | first result, s | all, s | scheduler, MiB more | reader, MiB more |\n|---|---|---|---|---|")
    print(f"| {n_rows:,} | {first:.3f} | {seconds:.2f} | {(after - before) / 2**20:.1f} | {read / 2**20:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="/var/tmp", help="on the disk to use")
    parser.add_argument("--attach", type=int, metavar="ROWS", help="read a job of so many rows with another client")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        scheduler = Scheduler(keep=str(Path(place) / "jobs"), logging_level="WARNING")
        scheduler.start()
        cluster = Cluster(scheduler.get_address(), n_workers=2, logging_level="WARNING")
        cluster.start()
        process = next(each for each in psutil.Process().children() if each.pid == scheduler.pid)
        with Client(scheduler.get_address()) as client:
            client.map(row, [(1, 0.0)] * 100)
            if arguments.attach:
                attach(process, scheduler.get_address(), arguments.attach)
            else:
                print(HEAD)
            for seconds, n_rows in () if arguments.attach else CASES:
                items = [(number, seconds) for number in range(n_rows)]
                pairs = [
                    (*timed(client, process, items, None), *timed(client, process, items, f"{seconds}-{turn}"))
                    for turn in range(TIMES)
                ]
                plain, plain_cpu, named, named_cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
                costs = (1e6 * plain_cpu / n_rows, 1e6 * named_cpu / n_rows)
                print(
                    f"| {1000 * seconds:g} ms | {n_rows:,} | {n_rows / plain:,.0f} | {n_rows / named:,.0f} | "
                    f"{plain / named:.2f} | {costs[0]:.1f} | {costs[1]:.1f} |"
                )
        cluster.terminate()
        scheduler.terminate()


if __name__ == "__main__":
    main()
