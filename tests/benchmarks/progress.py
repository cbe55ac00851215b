"""What a progress bar costs a map: maps of no-ops in one program, every second of them with a bar in a terminal.

python -m tests.benchmarks.progress                     some four minutes
python -m tests.benchmarks.progress --maps 21 --tasks 20000
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import statistics
import sys
import threading
import time

from scaler import Client
from tests.benchmarks._alternated import Block, effect

WIDTH = 100


def noop(number: int) -> int:
    return number


def read_all(master: int) -> None:
    """Read what the terminal gets, as a terminal does."""
    with contextlib.suppress(OSError):  # its other end was closed
        while os.read(master, 65536):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=int, default=101)
    parser.add_argument("--tasks", type=int, default=30_000, help="of each map")
    options = parser.parse_args()
    master, slave = pty.openpty()
    threading.Thread(target=read_all, args=(master,), daemon=True).start()
    items = [(number,) for number in range(options.tasks)]
    blocks, callers = [], []
    with Client(n_workers=2) as client, open(slave, "w", encoding="utf-8") as terminal:  # noqa: PTH123 - a descriptor
        os.environ["COLUMNS"] = str(WIDTH)
        sys.stderr, usual = terminal, sys.stderr
        try:
            client.map(noop, items)
            for number in range(options.maps):
                began, own = time.perf_counter(), time.thread_time()
                client.map(noop, items, progress=bool(number % 2))
                callers.append(Block((time.thread_time() - own) / options.tasks * 1e6))
                blocks.append(Block((time.perf_counter() - began) / options.tasks * 1e6))
        finally:
            sys.stderr = usual
    print("| | us per task: median | least | most |")
    print("|---|--:|--:|--:|")
    for name, each in (("without a bar", blocks[::2]), ("with a bar", blocks[1::2])):
        us = [block.us for block in each]
        print(f"| {name} | {statistics.median(us):.2f} | {min(us):.2f} | {max(us):.2f} |")
    print()
    print(f"with a bar: {effect(blocks)} more time")
    print(f"processor time of the calling thread: {effect(callers)}")


if __name__ == "__main__":
    main()
