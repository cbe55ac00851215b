"""Value at risk: a portfolio's loss that will not be exceeded in a year with 99 % confidence, by Monte Carlo.

This is a historical simulation: months of the past are drawn with replacement, from real prices of six shares that are
part of matplotlib. Each task has a random stream of its own, from one seed, so the result does not depend on the
worker.
"""

from __future__ import annotations

import csv

import numpy as np
from matplotlib.cbook import get_sample_data
from side_by_side import arguments, side_by_side

SHARES = ("IBM", "AAPL", "MSFT", "XRX", "AMZN", "ADBE")
MONTHS = 12
TASKS = 40
CONFIDENCE = 0.99


def monthly_returns() -> np.ndarray:
    """Return one row for each month in which all shares have a price."""
    with get_sample_data("Stocks.csv", asfileobj=True) as file:
        lines = [line.decode() if isinstance(line, bytes) else line for line in file]
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    prices = np.array([[float(row[share]) for share in SHARES] for row in rows if all(row[share] for share in SHARES)])
    return np.diff(np.log(prices), axis=0)


def simulated_returns(returns: np.ndarray, seed: np.random.SeedSequence, paths: int) -> np.ndarray:
    """Return the gain or loss of the portfolio, with an equal part in each share, on each path: the task."""
    months = np.random.default_rng(seed).integers(len(returns), size=(paths, MONTHS))
    return np.expm1(returns[months].sum(axis=1)).mean(axis=1)


def risk(outcomes: list[np.ndarray]) -> tuple[float, float]:
    """Return the value at risk and the expected shortfall: the mean of the losses beyond it."""
    losses = -np.sort(np.concatenate(outcomes))
    beyond = losses[: max(1, round(len(losses) * (1 - CONFIDENCE)))]
    return float(beyond[-1]), float(beyond.mean())


def main() -> None:
    """Estimate the value at risk and the expected shortfall from many paths."""
    options = arguments("Estimate the value at risk of a portfolio.", 150_000, "paths of each of 40 tasks")
    returns = monthly_returns()
    seeds = np.random.SeedSequence(2024).spawn(TASKS)

    (at_risk, shortfall), verdict = side_by_side(
        lambda: risk([simulated_returns(returns, seed, options.size) for seed in seeds]),
        lambda client: risk(client.map(simulated_returns, [(returns, seed, options.size) for seed in seeds])),
        options.workers,
    )

    print(f"{len(returns)} months of {', '.join(SHARES)}; {TASKS * options.size:,} paths of {MONTHS} months")
    print(f"value at risk {at_risk:.2%}, expected shortfall {shortfall:.2%} ({CONFIDENCE:.0%} confidence)")
    print(verdict)


if __name__ == "__main__":
    main()
