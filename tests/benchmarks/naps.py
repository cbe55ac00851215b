"""What a task of some milliseconds costs beside itself: processor time and messages of client, scheduler and agent.

    python tests/benchmarks/naps.py                  tasks that sleep for 8 ms, on two workers: ten seconds
    python tests/benchmarks/naps.py --ms 1 --tasks 2000

The tasks sleep, so the machine need not be quiet. `map` says that its results are wanted together, `map_unordered` does
not (`docs/decisions/0016-results-of-a-map-wait-for-each-other.md`).
"""

from __future__ import annotations

import argparse
import re
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from scaler import Client, SchedulerClusterCombo

NAMES = {"scaler_scheduler": "scheduler", "scaler_cluster": "agent"}
RECEIVED = re.compile(r"received .*; ([\d,]+) messages")
WORKERS = 2


def nap(seconds: float) -> None:
    time.sleep(seconds)


def processes() -> dict[str, psutil.Process]:
    """Return the processes between the user and the tasks."""
    found = {"client": psutil.Process()}
    for process in psutil.Process().children(recursive=True):
        command = process.cmdline()
        name = next((NAMES[word] for word in command if word in NAMES), None)
        if name is not None and "fork_server" not in " ".join(command):
            found.setdefault(name, process)
    return found


def used_seconds() -> dict[str, float]:
    return {name: sum(process.cpu_times()[:2]) for name, process in processes().items()}


def received(log: Path) -> int:
    """Return how many messages the scheduler has received: it writes that into its log when it is asked."""
    before = len(RECEIVED.findall(log.read_text()))
    processes()["scheduler"].send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while len(found := RECEIVED.findall(log.read_text())) == before:
        assert time.monotonic() < deadline, "the scheduler has not written its page"
        time.sleep(0.01)
    return int(found[-1].replace(",", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ms", type=float, default=8.0, help="how long each task takes (default: 8)")
    parser.add_argument("--tasks", type=int, default=600, help="how many there are (default: 600)")
    options = parser.parse_args()
    items = [(options.ms / 1000,)] * options.tasks
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with (
            SchedulerClusterCombo(n_workers=WORKERS, logging_paths=(str(log),)) as cluster,
            Client(cluster.get_address()) as client,
        ):
            ways: dict[str, Callable[[], object]] = {
                "map_unordered": lambda: list(client.map_unordered(nap, items)),
                "map": lambda: client.map(nap, items),
            }
            client.map(nap, items[:100])
            print("| of each task  | all, ms | client | scheduler | agent | messages to the scheduler |")
            print("|---------------|--------:|-------:|----------:|------:|--------------------------:|")
            for name, run in ways.items():
                print(row(name, run, log, options.tasks))


def row(name: str, run: Callable[[], object], log: Path, n_tasks: int) -> str:
    """Return what one way took of each task."""
    before, said, start = used_seconds(), received(log), time.perf_counter()
    run()
    seconds, after = time.perf_counter() - start, used_seconds()
    said = received(log) - said
    client, scheduler, agent = ((after[each] - before[each]) / n_tasks * 1e3 for each in ("client", *NAMES.values()))
    of_all = f"{seconds / n_tasks * 1e3:7.2f} | {client:6.2f} | {scheduler:9.2f} | {agent:5.2f}"
    return f"| {name:13} | {of_all} | {said / n_tasks:25.2f} |"


if __name__ == "__main__":
    main()
