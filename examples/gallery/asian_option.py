"""Asian option: the value of an option on the mean price of a year, by a Monte Carlo job that outlives its program.

Each row simulates paths with a random stream of its own. So the sum of the rows is the same to the last bit, whatever
the order, place and time of their runs. Kill this program while it runs, and start it again: ended rows do not run
again.
"""

from __future__ import annotations

import argparse
import math
import os
import random

from scaler import Client
from scaler.errors import JobError

SPOT, STRIKE, RATE, VOLATILITY, MONTHS = 100.0, 100.0, 0.03, 0.2, 12
PATHS = 1000


def payoffs(row: int) -> tuple[float, float]:
    """Return the sum of the option's payoffs at the ends of the paths, and the sum of the squares: the task."""
    chance = random.Random(row)
    drift, spread = (RATE - VOLATILITY**2 / 2) / MONTHS, VOLATILITY / math.sqrt(MONTHS)
    total = squares = 0.0
    for _ in range(PATHS):
        price, sum_of_prices = SPOT, 0.0
        for _ in range(MONTHS):
            price *= math.exp(drift + spread * chance.gauss(0.0, 1.0))
            sum_of_prices += price
        paid = max(0.0, sum_of_prices / MONTHS - STRIKE)
        total += paid
        squares += paid * paid
    return total, squares


def rows_done(client: Client, name: str) -> int:
    """Return the number of rows that earlier runs of this program have finished."""
    try:
        return client.job(name).progress().done
    except JobError:
        return 0


def main() -> None:
    """Price the option, or continue after the last run."""
    parser = argparse.ArgumentParser(description="Price an Asian option, by a job that may be killed at any time.")
    parser.add_argument("size", type=int, nargs="?", default=2000, help=f"rows of {PATHS} paths (default: 2000)")
    parser.add_argument("-n", "--workers", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    parser.add_argument("--keep", default="jobs", help="the folder in which the job is kept (default: jobs)")
    options = parser.parse_args()

    name = f"asian option, {options.size} rows"
    with Client(n_workers=options.workers, keep=options.keep, logging_level="WARNING") as client:
        print(f"{rows_done(client, name):,} of {options.size:,} rows were there", flush=True)
        sums = client.map(payoffs, [(row,) for row in range(options.size)], job=name)
    total, squares = (math.fsum(column) for column in zip(*sums, strict=True))
    paths = options.size * PATHS
    mean, discount = total / paths, math.exp(-RATE)
    error = math.sqrt(max(0.0, squares / paths - mean**2) / paths)
    print(f"{paths:,} paths pay {total!r}")
    print(f"the option is worth {discount * mean:.4f}, with a standard error of {discount * error:.4f}")


if __name__ == "__main__":
    main()
