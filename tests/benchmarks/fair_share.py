"""What one task costs in the scheduler, however many workers and clients there are, under each policy.

As `scheduler_core.py`: all actors, the codec and the edge, without sockets. All clients have tasks waiting all the
time, and half of what is open waits at the scheduler. The last columns are the policy alone, called as the balancer
calls it.

    python tests/benchmarks/fair_share.py              microseconds per task, best of several
    python tests/benchmarks/fair_share.py --single     how long one task takes while 100,000 of another client wait
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import deque

from scaler import Client, SchedulerClusterCombo
from scaler.actors.policy import Placement, make_policy
from scaler.process.shell import GARBAGE_THRESHOLDS
from scaler.settings.scheduler import POLICIES
from tests.benchmarks.scheduler_core import RESULT_BATCH, WINDOW, Run
from tests.support.configs import scheduler_config
from tests.support.ready import SHORT, task

PATIENCE_SECONDS = 8.0
WORKERS = (1, 100, 5_000)
CLIENTS = (1, 100, 1_000)


def queue_size(workers: int) -> int:
    """Return how many tasks a worker may have, so that half of what is open waits at the scheduler."""
    return max(1, WINDOW // 2 // workers)


def in_the_scheduler(tasks: int, workers: int, clients: int, policy: str) -> float:
    """Return microseconds per task."""
    limits = scheduler_config(policy=policy, per_worker_queue_size=queue_size(workers))
    return Run(tasks, workers=workers, clients=clients, limits=limits).run()


def in_the_policy(tasks: int, workers: int, clients: int, policy: str) -> float:
    """Return microseconds per task."""
    placement: Placement = make_policy(scheduler_config(policy=policy))
    for worker in range(workers):
        placement.join(worker, queue_size(workers))
    placement.freed(0, 0, 0, {SHORT: (2, 1)})
    waiting = deque(task(number, number // 10 % clients) for number in range(tasks))
    running: deque[int] = deque()
    batch = [waiting.popleft() for _ in range(min(WINDOW, tasks))]
    done = 0
    start = time.perf_counter()
    while done < tasks:
        placement.ready(batch)
        running.extend(worker for worker, row in placement.decide(0.0).assigned.items() for _ in row)
        count = min(RESULT_BATCH, len(running))
        for _ in range(count):
            placement.freed(running.popleft(), 1, 2, {})
        done += count
        batch = [waiting.popleft() for _ in range(min(count, len(waiting)))]
    return (time.perf_counter() - start) / tasks * 1e6


def single_tasks(policy: str, count: int) -> None:
    """Print what one task after the other takes while another client has so many of 1 ms waiting, on real workers."""
    with (
        SchedulerClusterCombo(2, policy=policy, logging_level="ERROR") as combo,
        Client(combo.get_address()) as busy,
        Client(combo.get_address()) as other,
    ):
        other.submit(abs, -1).result()
        busy.map(time.sleep, [(0.001,)] * 50)
        for _ in range(count):
            busy.submit(time.sleep, 0.001)
        took = []
        for _ in range(5):
            start = time.perf_counter()
            try:
                other.submit(abs, -1).result(PATIENCE_SECONDS)
            except TimeoutError:
                took.append(f"more than {PATIENCE_SECONDS:g}")
                break
            took.append(f"{time.perf_counter() - start:.3f}")
        print(f"{policy}: {', '.join(took)} s", flush=True)
        busy.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--single", action="store_true")
    options = parser.parse_args()
    if options.single:
        for policy in POLICIES:
            single_tasks(policy, 100_000)
        return
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    print(f"| workers | clients |{'|'.join(f' {policy} ' for policy in POLICIES)}|", end="")
    print("|".join(f" {policy}, policy alone " for policy in POLICIES), end="|\n|--:|--:|--:|--:|--:|--:|\n")
    for workers in WORKERS:
        for clients in CLIENTS:
            # In turn, so that a slow moment of the machine meets all of them.
            rows = [
                [program(options.tasks, workers, clients, policy) for program in PROGRAMS for policy in POLICIES]
                for _ in range(options.repeats)
            ]
            cells = " | ".join(f"{min(column):.2f}" for column in zip(*rows, strict=True))
            print(f"| {workers:,} | {clients:,} | {cells} |", flush=True)


PROGRAMS = (in_the_scheduler, in_the_policy)

if __name__ == "__main__":
    main()
