"""Quickstart: how much faster `make quickstart` is on the cluster than in one process, and where the rest goes.

    python tests/benchmarks/quickstart.py                  five rounds: some two minutes
    python tests/benchmarks/quickstart.py --rounds 1

Each round runs the program itself (`examples/measure_code.py`), which says how long both ways take; then the same calls
in a `Pool` of the standard library with as many processes, whose start does not count: what this machine can give. At
last the program runs once more without the calls in one process, and the processor time of each of its processes is
read until it ends. That includes its start.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import statistics
import subprocess
import sys
import sysconfig
import time
from importlib import util
from pathlib import Path
from types import ModuleType

import psutil
from _kinds import kind_of

PROGRAM = Path(__file__).parents[2] / "examples" / "measure_code.py"
WORKERS = 2
LOOK_SECONDS = 0.02
TIMES = re.compile(r"on the cluster +([\d.]+) s.*in one process +([\d.]+) s", re.DOTALL)


def measure_code() -> ModuleType:
    """Return the program as a module."""
    spec = util.spec_from_file_location("measure_code", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules["measure_code"] = module  # for the processes of the pool, and the pickles of its classes
    spec.loader.exec_module(module)
    return module


def on_the_cluster() -> tuple[float, float]:
    """Return the seconds on the cluster, and in one process."""
    command = [sys.executable, str(PROGRAM), "--workers", str(WORKERS)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = TIMES.search(shown)
    assert found is not None, shown
    return float(found[1]), float(found[2])


def in_a_pool(program: ModuleType) -> float:
    """Return the seconds in a pool."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = program.find_files(folder, program.INSTALLED | program.TESTS)
    calls, _ = program.read_files(folder, files)
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        pool.map(len, [()] * 10)
        start = time.perf_counter()
        pool.starmap(program.measure_file, calls, chunksize=1)
        return time.perf_counter() - start


def name_of(process: psutil.Process) -> str:
    command = process.cmdline()
    if not command:
        return ""
    if not {"scaler_scheduler", "scaler_cluster"}.intersection(command):
        return "client"
    kind = kind_of(process)
    return "fork server and processors" if kind == "processors" else kind


def processor_times() -> dict[str, float]:
    """Return the processor time of each kind of process, in seconds."""
    command = [sys.executable, str(PROGRAM), "--workers", str(WORKERS), "--no-serial"]
    times: dict[int, tuple[str, float]] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        root = psutil.Process(running.pid)
        while running.poll() is None:
            for process in [root, *root.children(recursive=True)]:
                try:
                    used, name = process.cpu_times(), name_of(process)
                    if name:  # it has not ended
                        times[process.pid] = name, used.user + used.system
                except psutil.Error:
                    continue  # it has just ended
            time.sleep(LOOK_SECONDS)
    sums: dict[str, float] = {}
    for name, seconds in times.values():
        sums[name] = sums.get(name, 0.0) + seconds
    return sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: 5)")
    rounds = parser.parse_args().rounds
    program = measure_code()
    rows = [(*on_the_cluster(), in_a_pool(program)) for _ in range(rounds)]
    print(f"| median of {rounds:2}         | seconds | of one process |")
    print("|----------------------|--------:|---------------:|")
    for name, place in (("in one process", 1), ("on the cluster", 0), (f"Pool of {WORKERS}", 2)):
        ratio = statistics.median(row[1] / row[place] for row in rows)
        print(f"| {name:20} | {statistics.median(row[place] for row in rows):7.2f} | {ratio:12.2f} x |")
    print("\n| processor time             | seconds |")
    print("|----------------------------|--------:|")
    for name, seconds in sorted(processor_times().items(), key=lambda row: -row[1]):
        print(f"| {name:26} | {seconds:7.2f} |")


if __name__ == "__main__":
    main()
