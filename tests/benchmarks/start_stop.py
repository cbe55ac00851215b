"""Start and stop: how long a local cluster takes to come, to give a first result and to go, and what is left of many.

python tests/benchmarks/start_stop.py
python tests/benchmarks/start_stop.py --cycles 20
python tests/benchmarks/start_stop.py --beside OLD/bin/python NEW/bin/python --cycles 15

With `--beside`, fresh programs of two installed versions start a local cluster in turn. Shown are the medians: the
processor time of all processes to the first result, of each of them, and the time that passes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import threading
import time
from pathlib import Path

import psutil

from scaler import Client, SchedulerClusterCombo

PROGRAM = """
import json, time
begun = time.perf_counter()
from scaler import Client
client = Client()
assert client.submit(pow, 2, 2).result() == 4
passed, own = time.perf_counter() - begun, time.process_time()
import psutil  # its import is no part of what is measured
used = [own, *(sum(each.cpu_times()[:2]) for each in psutil.Process().children(recursive=True))]
print(json.dumps([passed, sum(used), *used[:4]]))
client.disconnect()
"""


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


def beside(pythons: tuple[str, str], cycles: int) -> None:
    """Show what each of two versions takes from the start of a program to its first result."""
    rows: dict[str, list[list[float]]] = {python: [] for python in pythons}
    for number in range(cycles):
        for python in pythons if number % 2 else pythons[::-1]:
            printed = subprocess.run([python, "-I", "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
            rows[python].append(json.loads(printed))
    print("| seconds, median | passed | used | client | scheduler | agent | fork server |")
    print("|---|---|---|---|---|---|---|")
    medians = {python: [statistics.median(column) for column in zip(*rows[python], strict=True)] for python in pythons}
    for python, columns in medians.items():
        print(f"| {python} | {' | '.join(f'{each:.3f}' for each in columns)} |")
    old, new = medians.values()
    print(f"| new to old | {' | '.join(f'{two / one:.2f}' for one, two in zip(old, new, strict=True))} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=200, help="how many clusters (default: 200)")
    parser.add_argument("--beside", nargs=2, metavar=("OLD", "NEW"), help="the interpreters of two versions")
    options = parser.parse_args()
    if options.beside:
        beside(tuple(options.beside), options.cycles)
        return
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
