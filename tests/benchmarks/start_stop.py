"""Start and stop: how long a local cluster takes to come, to give a first result and to go, and what is left of many.

python tests/benchmarks/start_stop.py
python tests/benchmarks/start_stop.py --cycles 20
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import psutil

from scaler import Client, SchedulerClusterCombo


def open_descriptors() -> int:
    return psutil.Process().num_fds()


def in_shared_memory() -> set[str]:
    folder = Path("/dev/shm")
    return {file.name for file in folder.iterdir()} if folder.exists() else set()


def cycle() -> tuple[float, float]:
    """Return the seconds to the first result, and to the end."""
    start = time.perf_counter()
    with SchedulerClusterCombo(1, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
        assert client.submit(pow, 2, 2).result(60) == 4
        first = time.perf_counter()
    return first - start, time.perf_counter() - first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=200, help="how many clusters (default: 200)")
    options = parser.parse_args()
    cycle()  # what the first use of a library opens for good
    before = open_descriptors(), threading.active_count(), len(psutil.Process().children(recursive=True))
    files = in_shared_memory()
    times = [cycle() for _ in range(options.cycles)]
    after = open_descriptors(), threading.active_count(), len(psutil.Process().children(recursive=True))
    print(f"| {options.cycles} clusters, one after the other       | measured |")
    print("|-------------------------------------------|---------:|")
    for name, place in (("start to first result", 0), ("end", 1)):
        seconds = sorted(each[place] for each in times)
        print(f"| {name + ', median':41} | {seconds[len(seconds) // 2]:6.3f} s |")
        print(f"| {name + ', slowest':41} | {seconds[-1]:6.3f} s |")
    for name, one, other in zip(("descriptors", "threads", "processes"), before, after, strict=True):
        print(f"| {name + ' left behind':41} | {other - one:8} |")
    print(f"| {'files left in /dev/shm':41} | {len(in_shared_memory() - files):8} |")


if __name__ == "__main__":
    main()
