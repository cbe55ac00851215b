"""What benchmark programs share: repeat, compare with a target, tell how sure a median is, print a table or JSON."""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import comb


@dataclass(frozen=True)
class Figure:
    """One line of the table. A smaller value is better."""

    name: str
    value: float
    unit: str
    target: float | None = None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "ok" if self.value < self.target else "MISSED"


def best_seconds(program: Callable[[], float], repeats: int) -> float:
    """Return the shortest time that `program` reports: noise only ever adds."""
    times = []
    for _ in range(repeats):
        gc.collect()
        times.append(program())
    return min(times)


def timed(program: Callable[[], object]) -> float:
    """Return how many seconds one call takes."""
    start = time.perf_counter()
    program()
    return time.perf_counter() - start


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return between which of the values their median lies with at least 95 % confidence, if there are six.

    By their order; nothing is assumed of their distribution.
    """
    ordered, n = sorted(values), len(values)
    outside, cut = 0.0, 0
    while cut < n // 2 and outside + 2 * comb(n, cut) / 2**n <= 0.05:
        outside += 2 * comb(n, cut) / 2**n
        cut += 1
    cut = max(cut - 1, 0)
    return ordered[cut], ordered[n - 1 - cut]


def options(description: str | None) -> argparse.Namespace:
    """Parse the command line that all benchmark programs have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeats", type=int, default=5, help="how often each is measured; the best counts")
    return parser.parse_args()


def report(figures: Iterable[Figure], as_json: bool) -> None:
    """Print the figures: a Markdown table, or JSON with the Python version."""
    figures = list(figures)
    if as_json:
        rows = [asdict(figure) | {"verdict": figure.verdict} for figure in figures]
        print(json.dumps({"python": platform.python_version(), "figures": rows}, indent=2))
        return
    width = max(len(figure.name) for figure in figures)
    print(f"| {'what':{width}} | {'measured':>15} | {'target':>15} |        |")
    print(f"|{'-' * (width + 2)}|{'-' * 16}:|{'-' * 16}:|--------|")
    for figure in figures:
        target = "" if figure.target is None else f"< {figure.target:g} {figure.unit}"
        measured = f"{figure.value:,.2f} {figure.unit}"
        print(f"| {figure.name:{width}} | {measured:>15} | {target:>15} | {figure.verdict:6} |")
