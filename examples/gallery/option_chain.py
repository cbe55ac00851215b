"""Option prices: the implied volatility of each American put of a chain, by a binomial tree.

The tree is that of Cox, Ross and Rubinstein, "Option pricing: a simplified approach", Journal of Financial Economics 7
(1979). The program makes the chain from known volatilities, so the answer can be checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from side_by_side import arguments, side_by_side

SPOT, RATE = 100.0, 0.04
MONTHS = (1, 2, 3, 6, 12)
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Quote:
    """One put of the chain."""

    strike: float
    years: float
    price: float


def put_price(strike: float, years: float, volatility: float, steps: int) -> float:
    """Return the price of an American put."""
    step = years / steps
    up = math.exp(volatility * math.sqrt(step))
    discount = math.exp(-RATE * step)
    chance = (math.exp(RATE * step) - 1 / up) / (up - 1 / up)
    better, worse = discount * chance, discount * (1 - chance)
    values = [max(strike - SPOT * up ** (2 * ups - steps), 0.0) for ups in range(steps + 1)]
    for level in range(steps - 1, -1, -1):
        spots = [SPOT * up ** (2 * ups - level) for ups in range(level + 1)]
        values = [max(strike - spot, better * values[ups + 1] + worse * values[ups]) for ups, spot in enumerate(spots)]
    return values[0]


def implied_volatility(quote: Quote, steps: int) -> float:
    """Return the volatility at which the tree gives the price of the quote, by bisection: the task."""
    low, high = 0.01, 2.0
    while high - low > TOLERANCE / 10:
        middle = (low + high) / 2
        if put_price(quote.strike, quote.years, middle, steps) < quote.price:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def smile(strike: float, years: float) -> float:
    """Return the volatility from which the chain is made: higher for low strikes, less so for long terms."""
    return 0.2 + 0.1 * math.log(SPOT / strike) ** 2 / years + 0.05 * max(SPOT / strike - 1, 0)


def main() -> None:
    """Make a chain, and find its volatilities again."""
    options = arguments("Find the implied volatilities of a chain of American puts.", 200, "steps of the tree")
    steps = options.size
    terms = [(strike, months / 12) for months in MONTHS for strike in range(80, 122, 4)]
    chain = [Quote(strike, years, put_price(strike, years, smile(strike, years), steps)) for strike, years in terms]

    found, verdict = side_by_side(
        lambda: [implied_volatility(quote, steps) for quote in chain],
        lambda client: client.map(implied_volatility, [(quote, steps) for quote in chain]),
        options.workers,
    )

    # Deep in the money a put is exercised at once: its price does not depend on volatility.
    telling = [
        (quote, volatility)
        for quote, volatility in zip(chain, found, strict=True)
        if quote.price > quote.strike - SPOT + 0.01
    ]
    worst = max(abs(volatility - smile(quote.strike, quote.years)) for quote, volatility in telling)
    print(f"{len(chain)} puts, {len(telling)} of them with a volatility; largest error {worst:.5f}")
    for quote, volatility in telling[::9]:
        print(f"  strike {quote.strike:5.0f}  {quote.years:4.2f} years  price {quote.price:6.3f}  {volatility:6.2%}")
    print(verdict)


if __name__ == "__main__":
    main()
