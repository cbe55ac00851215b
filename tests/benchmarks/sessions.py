"""Sessions: what it costs when a client with very many open tasks starts a new session, or finds another scheduler.

    PYTHONPATH=. python tests/benchmarks/sessions.py                           50,000 tasks, two of which run
    PYTHONPATH=. python tests/benchmarks/sessions.py --tasks 1000 --stored 1000    and 1,000 MB of stored objects

In the first case the link drops its connection, as after an interrupt of a submit. In the second one the scheduler is
killed, and another one starts at its address. Times end when the scheduler has all open tasks
again: when it answers a request that the client sends behind them. `processor` is the processor time of the scheduler
until all is quiet.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import psutil

from scaler import Client
from tests.support.processes import command, free_address, scheduler

QUIET_SECONDS = 1.0


def nap(_number: int) -> None:
    time.sleep(3600)


def wait_until_quiet(process: psutil.Process) -> float:
    """Wait until a process uses hardly any processor time. Return the seconds that it has used in all."""
    while True:
        before = sum(process.cpu_times()[:2])
        time.sleep(QUIET_SECONDS)
        after = sum(process.cpu_times()[:2])
        if after - before < 0.1 * QUIET_SECONDS:
            return after


def wait_until_open(client: Client, tasks: int) -> None:
    while client.info().waiting_tasks + sum(worker.tasks for worker in client.workers()) < tasks:
        time.sleep(0.1)


def show(case: str, seconds: float, processor: float) -> None:
    print(f"| {case:22} | {seconds:9.3f} | {processor:9.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50_000, help="open tasks of the client (default: 50000)")
    parser.add_argument("--stored", type=int, default=0, help="megabytes of stored objects (default: 0)")
    parser.add_argument("--times", type=int, default=5, help="how often a new session starts (default: 5)")
    chosen = parser.parse_args()
    address = free_address()
    print(f"| {'case':22} | {'seconds':>9} | {'processor':>9} |")
    print(f"|{'-' * 24}|{'-' * 10}:|{'-' * 10}:|")
    workers, first = command("cluster", address, "--num-of-workers", "2"), scheduler(address)
    with workers, first as (_, running), Client(address) as client:
        objects = [client.send_object(bytes(1_000_000)) for _ in range(chosen.stored)]
        futures = [client.submit(nap, number) for number in range(chosen.tasks)]
        wait_until_open(client, chosen.tasks)
        process = psutil.Process(running.pid)
        seconds, processor = [], []
        for _ in range(chosen.times):
            before, start = wait_until_quiet(process), time.perf_counter()
            link: Any = client._core.link
            link._was_interrupted = True
            link._inbox.rouse()
            client.workers()
            seconds.append(time.perf_counter() - start)
            processor.append(wait_until_quiet(process) - before)
        show("a new session", statistics.median(seconds), statistics.median(processor))
        running.process.kill()
        running.process.wait()
        start = time.perf_counter()
        with scheduler(address) as (_, other):
            client.workers()
            took = time.perf_counter() - start
            show("another scheduler", took, wait_until_quiet(psutil.Process(other.pid)))
            assert not any(future.done() for future in futures)
            del objects
            client.clear()


if __name__ == "__main__":
    main()
