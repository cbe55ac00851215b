"""Deaths: processors that die, one after the other; how fast they are replaced, and what is left of them in the agent.

    PYTHONPATH=. python tests/benchmarks/deaths.py                 ten thousand
    PYTHONPATH=. python tests/benchmarks/deaths.py --deaths 1000

The agent's actors run in this very process, with the cyclic garbage collector off: what is given back is given back at
once. Each task ends its process; it is not tried again, for that is the scheduler's business.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import time

import psutil

from scaler.wire.messages.common import TaskStatus
from tests.support.node import Node
from tests.support.processes import open_descriptors

STEPS = 10


def show(*cells: str) -> None:
    print("| " + " | ".join(f"{cell:>12}" for cell in cells) + " |", flush=True)


def die(node: Node, deaths: int) -> float:
    """Have so many processors die. Returns the seconds that it took."""
    node.results.clear()
    start = time.perf_counter()
    node.run(*(node.task(lambda: os._exit(1)) for _ in range(deaths)))
    node.until(lambda: len(node.results) == deaths, seconds=600)
    assert set(node.statuses()) == {TaskStatus.PROCESSOR_DIED}
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=10_000, help="how many processors die (default: 10000)")
    deaths = parser.parse_args().deaths
    logging.disable(logging.WARNING)  # a line for each death
    process = psutil.Process()
    node = Node()
    gc.disable()
    try:
        die(node, 10)
        show("deaths", "descriptors", "memory, MB", "deaths / s")
        print(f"|{'|'.join(['-' * 13 + ':'] * 4)}|")
        for step in range(STEPS + 1):
            seconds = die(node, deaths // STEPS) if step else 0
            rate = f"{deaths // STEPS / seconds:,.0f}" if step else ""
            megabytes = process.memory_info().rss / 1e6
            show(f"{step * deaths // STEPS:,}", f"{open_descriptors()}", f"{megabytes:,.1f}", rate)
    finally:
        node.close()


if __name__ == "__main__":
    main()
