"""What a name costs a map: rows of 0, 1 and 10 ms, with and without `job=`, at a scheduler with two workers.

    python tests/benchmarks/jobs.py                    some half a minute; pairs of one run
    python tests/benchmarks/jobs.py --folder /scratch  the disk to use, else /var/tmp
    python tests/benchmarks/jobs.py --attach 200000    another client reads so many rows; memory
    python tests/benchmarks/jobs.py --once             rows that may run once, with and without a name
    python tests/benchmarks/jobs.py --make 1000000     a job of so many rows is made; memory while that is done
    python tests/benchmarks/jobs.py --compare 100000   rows of several kinds are hashed; no scheduler

Processor time is that of the scheduler process with its clerk.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil

from scaler import Client, Scheduler
from scaler.client.jobs.comparing.row_digests import RowDigests
from scaler.client.jobs.row_ranges import ROWS
from scaler.cluster.cluster import Cluster

CASES = (0.0, 100_000), (0.001, 4_000), (0.01, 600)
"""seconds of a row, how many there are"""
ONCE = (0.001, 1000), (0.02, 200)
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
        begin = time.perf_counter()
        assert sum(1 for _ in other.job("many").as_completed()) == n_rows
        completed = time.perf_counter() - begin
    print("| rows | first result, s | all, s | scheduler, MiB more | reader, MiB more | as completed, s |")
    print("|---|---|---|---|---|---|")
    more = [f"{number / 2**20:.1f}" for number in (after - before, read)]
    print(f"| {n_rows:,} | {first:.3f} | {seconds:.2f} | {more[0]} | {more[1]} | {completed:.2f} |")


def make(scheduler: psutil.Process, address: str, n_rows: int) -> None:
    """Print how long it takes to make a job, and the most memory of its client and of the scheduler meanwhile."""
    me = psutil.Process()
    before, most = [each.memory_info().rss for each in (me, scheduler)], [0, 0]
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            most[:] = [max(known, each.memory_info().rss) for known, each in zip(most, (me, scheduler), strict=True)]

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    with Client(address) as client:
        job = client.start(row, ((number, 0.0) for number in range(n_rows)), name="made")
        made = time.perf_counter() - begin
        job.wait()
    seconds = time.perf_counter() - begin
    is_over.set()
    watcher.join()
    client_mib, scheduler_mib = ((after - then) / 2**20 for after, then in zip(most, before, strict=True))
    print("| rows | on disk, s | all done, s | client, MiB more | scheduler, MiB more |\n|---|---|---|---|---|")
    print(f"| {n_rows:,} | {made:.1f} | {seconds:.1f} | {client_mib:.1f} | {scheduler_mib:.1f} |")


def compare(n_rows: int) -> None:
    """Print what it costs to hash rows of several kinds, in ranges as a job has them."""
    day, kinds = dt.date(2020, 1, 1), {}
    kinds["plain"] = [(number, number * 1.5, f"row {number}") for number in range(n_rows)]
    kinds["plain, nested"] = [(number, [1.0, 2.0, {"a": number}]) for number in range(n_rows)]
    kinds["date"] = [(day + dt.timedelta(number % 9999), number) for number in range(n_rows)]
    kinds["NumPy scalars"] = [(np.float64(number), np.int64(number)) for number in range(n_rows)]
    kinds["small array"] = [(np.arange(5.0) + number,) for number in range(n_rows)]
    kinds["array of 8 MB in all rows"] = [(number, array) for array in [np.zeros(10**6)] for number in range(n_rows)]
    digests = RowDigests()
    print("| rows | digest of a range, us a row | digests of rows, us a row |\n|---|---|---|")
    for kind, rows in kinds.items():
        times = []
        for hashed in (digests.of_range, digests.of_rows):
            begin = time.process_time()
            for first in range(0, n_rows, ROWS):
                assert hashed(rows[first : first + ROWS])
            times.append((time.process_time() - begin) / n_rows * 1e6)
        print(f"| {kind} | {times[0]:.2f} | {times[1]:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="/var/tmp", help="on the disk to use")
    parser.add_argument("--attach", type=int, metavar="ROWS", help="read a job of so many rows with another client")
    parser.add_argument("--make", type=int, metavar="ROWS", help="make a job of so many rows")
    parser.add_argument("--once", action="store_true", help="of rows with at_most_once")
    parser.add_argument("--compare", type=int, metavar="ROWS", help="hash so many rows of each kind")
    arguments = parser.parse_args()
    if arguments.compare:
        compare(arguments.compare)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        scheduler = Scheduler(keep=str(Path(place) / "jobs"), logging_level="WARNING")
        scheduler.start()
        cluster = Cluster(scheduler.get_address(), n_workers=2, logging_level="WARNING")
        cluster.start()
        process = next(each for each in psutil.Process().children() if each.pid == scheduler.pid)
        with Client(scheduler.get_address()) as client:
            client.map(row, [(1, 0.0)] * 100)
            if arguments.attach or arguments.make:
                measure = attach if arguments.attach else make
                measure(process, scheduler.get_address(), arguments.attach or arguments.make)
                cases = ()
            else:
                print(HEAD)
                cases = ONCE if arguments.once else CASES
            calls = client.options(at_most_once=True) if arguments.once else client
            for seconds, n_rows in cases:
                items = [(number, seconds) for number in range(n_rows)]
                pairs = [
                    (*timed(calls, process, items, None), *timed(calls, process, items, f"{seconds}-{turn}"))
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
