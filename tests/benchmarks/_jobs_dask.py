"""What Dask has left of a map when its client or its scheduler is killed, beside `jobs.py`.

    python tests/benchmarks/_jobs_dask.py     some half a minute; needs `distributed`

Dask keeps no record, so there is nothing to time beside a named map: this prints how many results there were, and how
many of them somebody who comes later finds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import distributed

N_ROWS, SECONDS, HALF = 2_000, 0.005, 1_000

PROGRAM = f"""
import sys, time
from distributed import Client, as_completed

def row(number):
    time.sleep({SECONDS})
    return number

client = Client(sys.argv[1])
futures = client.map(row, range({N_ROWS}))
for n, _ in enumerate(as_completed(futures), 1):
    if n == {HALF}:
        print("half", flush=True)
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def kept(address: str) -> int:
    """Return how many tasks a scheduler still has."""
    with distributed.Client(address, timeout="30s") as client:
        return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def begin(address: str) -> tuple[subprocess.Popen[str], subprocess.Popen[str], subprocess.Popen[str]]:
    """Start a scheduler, a node of two workers and a program; return them when half of its rows have ended."""
    scheduler = start("-m", "distributed.cli.dask_scheduler", "--port", address.rpartition(":")[2], "--no-dashboard")
    workers = start(
        "-m", "distributed.cli.dask_worker", address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard"
    )
    program = start("-c", PROGRAM, address)
    assert program.stdout is not None
    assert program.stdout.readline() == "half\n"
    return scheduler, workers, program


def main() -> None:
    port = 18786
    print("| killed | results there were | of these, somebody who comes later finds |\n|---|---|---|")
    for victim in ("client", "scheduler"):
        address = f"tcp://127.0.0.1:{port}"
        scheduler, workers, program = begin(address)
        if victim == "client":
            kill(program)
            begun, left = time.perf_counter(), kept(address)
            while left and time.perf_counter() < begun + 10:
                left = kept(address)
        else:
            kill(scheduler)
            scheduler = start("-m", "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard")
            left = kept(address)
            kill(program)
        print(f"| {victim} | {HALF:,} | {left:,} |", flush=True)
        for process in (workers, scheduler):
            kill(process)
        port += 1


if __name__ == "__main__":
    main()
