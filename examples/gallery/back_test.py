"""Back-test: crossing moving averages over four years of daily prices, one task for each slow window.

The prices are Google's from 2004 to 2008, which are part of matplotlib. The best pair of windows is chosen on the first
three years and tested on the rest, beside buying and holding. The best pair of the past is seldom the best later.
"""

from __future__ import annotations

import numpy as np
from matplotlib.cbook import get_sample_data
from side_by_side import arguments, side_by_side

COST = 0.0005
"""the cost of a trade, as a part of its value"""
Result = tuple[float, int, int]


def gain(prices: list[float], fast: int, slow: int) -> float:
    """Return the final value of one unit of money that is invested while the fast average is above the slow one."""
    money, is_invested = 1.0, False
    for day in range(slow, len(prices) - 1):
        wants = sum(prices[day - fast : day]) / fast > sum(prices[day - slow : day]) / slow
        if wants != is_invested:
            money *= 1 - COST
            is_invested = wants
        if is_invested:
            money *= prices[day + 1] / prices[day]
    return money


def best_of(prices: list[float], slow: int) -> Result:
    """Return the best fast window for a slow one: the task."""
    return max((gain(prices, fast, slow), fast, slow) for fast in range(2, slow, 4))


def main() -> None:
    """Choose windows on the first part of the prices, and test them on the second."""
    options = arguments("Test crossing moving averages.", 200, "days of the slowest average")
    with np.load(get_sample_data("goog.npz", asfileobj=False)) as data:
        prices = data["price_data"]["adj_close"].tolist()
    first, second = prices[:780], prices[780:]
    windows = range(10, options.size + 1, 2)

    (found, fast, slow), verdict = side_by_side(
        lambda: max(best_of(first, slow) for slow in windows),
        lambda client: max(client.map(best_of, [(first, slow) for slow in windows])),
        options.workers,
    )

    print(f"{sum(len(range(2, slow, 4)) for slow in windows)} pairs of windows; best: {fast} and {slow} days")
    print(f"  first {len(first)} days: times {found:.2f}; holding: times {first[-1] / first[0]:.2f}")
    later = gain(prices[len(first) - slow :], fast, slow)
    print(f"  then {len(second)} days: times {later:.2f}; holding: times {second[-1] / second[0]:.2f}")
    print(verdict)


if __name__ == "__main__":
    main()
