"""What the option `seed` costs a row: processor time of the worker process, beside the same seedings by hand.

    python tests/benchmarks/seeds.py                     ten blocks of each kind, in turn: half a minute
    python tests/benchmarks/seeds.py --alone             rows that travel alone, as long rows do

One cluster with one worker. Blocks take turns, so that the load of the machine meets all kinds. The smallest block
counts.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections.abc import Callable

import numpy as np

from scaler import Client, SchedulerClusterCombo, current_task

SEED, BLOCKS = 7, 10


def no_op(row: int) -> int:
    return row


def seed_by_hand(row: int) -> int:
    """Seed what the option seeds, from what the page on Monte Carlo says."""
    sequence = np.random.SeedSequence(SEED, spawn_key=(row,))
    state = sequence.generate_state(18)
    np.random.seed(state[8:12])
    random.seed(int.from_bytes(state[12:16].tobytes(), "little"))
    return row


def make_generator_by_hand(row: int) -> int:
    np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(row,)))
    return row


def take_generator(row: int) -> int:
    task = current_task()
    assert task is not None
    task.rng()
    return row


def spent() -> float:
    return time.process_time()


def block_us(client: Client, seeded: Client, function: Callable[[int], int], n_rows: int) -> float:
    """Run one block. Return the processor time of the worker process for each row, in microseconds."""
    before = client.submit(spent).result()
    seeded.map(function, [(row,) for row in range(n_rows)])
    return 1e6 * (client.submit(spent).result() - before) / n_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alone", action="store_true", help="each row is a task of its own")
    parser.add_argument("--rows", type=int, default=20_000, help="of a block (default: 20,000)")
    arguments = parser.parse_args()
    logging.getLogger("scaler.client").setLevel(logging.ERROR)  # which warns of repeated seeds
    options = {"rows_per_task": 1} if arguments.alone else {}
    with SchedulerClusterCombo(1, logging_level="CRITICAL", **options) as combo, Client(combo.get_address()) as client:
        seeded = client.options(seed=SEED)
        kinds = {
            "no seed": (client, no_op),
            "seeded by hand": (client, seed_by_hand),
            "`seed=7`": (seeded, no_op),
            "a generator by hand": (client, make_generator_by_hand),
            "`seed=7`, and `current_task().rng()`": (seeded, take_generator),
        }
        blocks: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(BLOCKS + 1):
            for kind, (caller, function) in kinds.items():
                blocks[kind].append(block_us(client, caller, function, arguments.rows))
    best = {kind: min(each[1:]) for kind, each in blocks.items()}  # the first blocks import NumPy
    print("| a row | us of processor time |\n|---|---|")
    for kind, us in best.items():
        print(f"| {kind} | {us:.1f} |")
    print(
        f"\n`seed=7` takes {best['`seed=7`'] / best['seeded by hand']:.2f} times what the same seedings by hand take."
    )


if __name__ == "__main__":
    main()
