"""The bridges beside what they stand in for: joblib's back-ends, and dask's schedulers. Two workers, rounds in turn.

A cold start is the first call of a back-end, with all that it starts. Warm calls follow in turn, while all back-ends
are there; the seconds of each turn are compared, and the interval of their ratio is right from six rounds on. A round
that would not end in time is not begun, and what fails is said. Progress goes to standard error.

    python tests/benchmarks/bridges.py                      both, at most 6 minutes
    python tests/benchmarks/bridges.py joblib --rounds 20 --minutes 10
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each worker, for all of them, and here

from _report import interval

from scaler import Client

WORKERS = 2
COLD_ROUNDS = 3
Found = dict[tuple[str, str], list[float]]
"""seconds by row and column of a table"""


class Clock:
    """Says whether there is time for another round, and how far the measuring is.

    Args:
        seconds: for all rounds.
    """

    def __init__(self, seconds: float) -> None:
        self._start = self._begun = time.monotonic()
        self._seconds = seconds
        self._longest = 0.0

    def rounds(self, what: str, count: int) -> Iterator[int]:
        """Yield the numbers of the rounds, for as long as there is time."""
        for number in range(count):
            begun = time.monotonic()
            if number and begun - self._start + self._longest > self._seconds:
                print(f"no time for round {number + 1} of {count} of {what}", file=sys.stderr)
                return
            yield number
            self._longest = time.monotonic() - begun
            said = f"{time.monotonic() - self._start:4.0f} s: round {number + 1} of {count} of {what}"
            print(said, file=sys.stderr, flush=True)


def seconds_of(program: Callable[[], object]) -> float:
    start = time.perf_counter()
    program()
    return time.perf_counter() - start


def grid_search() -> Any:
    """Return scikit-learn's grid search on the digits that come with it: 60 fits."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    digits = load_digits()
    grid = {"C": [0.1, 1, 10, 100], "gamma": [1e-4, 1e-3, 1e-2]}
    return GridSearchCV(SVC(), grid, cv=5).fit(digits.data, digits.target)


@contextlib.contextmanager
def scaler_backend() -> Iterator[dict[str, Any]]:
    with Client(n_workers=WORKERS) as client:
        yield {"backend": "scaler", "client": client}


@contextlib.contextmanager
def loky_backend() -> Iterator[dict[str, Any]]:
    from joblib.externals.loky import get_reusable_executor

    try:
        yield {"backend": "loky"}
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def no_backend() -> Iterator[dict[str, Any]]:
    yield {"backend": "sequential"}


def scores_of(options: dict[str, Any]) -> tuple[float, list[float]]:
    """Return the seconds of a grid search with a back-end, and its scores."""
    import joblib

    with joblib.parallel_config(n_jobs=WORKERS, **options):
        start = time.perf_counter()
        scores = list(grid_search().cv_results_["mean_test_score"])
        return time.perf_counter() - start, scores


def measure_joblib(rounds: int, seconds: float) -> Found:
    import scaler.integrations.joblib

    scaler.integrations.joblib.register()
    alone, expected = scores_of({"backend": "sequential"})  # and what is imported, is imported
    found: Found = {}
    clock = Clock(seconds)
    backends = {"scaler": scaler_backend, "loky": loky_backend}
    for number in clock.rounds("cold starts", COLD_ROUNDS):
        for name in list(backends) if number % 2 else reversed(backends):
            start = time.perf_counter()
            with backends[name]() as options:
                assert scores_of(options)[1] == expected, f"{name} has other scores"
                found.setdefault((name, "grid search, cold"), []).append(time.perf_counter() - start)
    with contextlib.ExitStack() as stack:
        warm = {name: stack.enter_context(backend()) for name, backend in backends.items()}
        for options in warm.values():
            scores_of(options)
        for number in clock.rounds("warm calls", rounds):
            for name in list(warm) if number % 2 else reversed(warm):
                took, scores = scores_of(warm[name])
                assert scores == expected, f"{name} has other scores"
                found.setdefault((name, "warm"), []).append(took)
    ratios = [theirs / ours for ours, theirs in zip(found["scaler", "warm"], found["loky", "warm"], strict=True)]
    low, high = interval(ratios)
    print(
        f"Warm, loky's seconds by ours: {statistics.median(ratios):.3f}, 95 % of the median {low:.3f} to {high:.3f}\n"
    )
    found["one process", "warm"] = [alone]
    return found


def wide() -> Any:
    import dask

    half = dask.delayed(lambda number: number / 2)
    return dask.delayed(sum)([half(number) for number in range(2_000)])


def tree() -> Any:
    import dask

    add = dask.delayed(lambda left, right: left + right)
    row = [add(number, 0) for number in range(1_024)]
    while len(row) > 1:
        row = [add(row[place], row[place + 1]) for place in range(0, len(row), 2)]
    return row[0]


def python_work() -> Any:
    import dask

    def count(below: int) -> int:
        return sum(all(n % divisor for divisor in range(2, int(n**0.5) + 1)) for n in range(2, below))

    return dask.delayed(sum)([dask.delayed(count)(8_000) for _ in range(40)])


def array() -> Any:
    import dask.array

    x = dask.array.random.default_rng(0).random((4_000, 4_000), chunks=(1_000, 1_000))
    return (x + x.T).sum()


def bag() -> Any:
    import dask.bag

    words = dask.bag.from_sequence([f"word{number % 997}" for number in range(200_000)], npartitions=16)
    return words.map(str.upper).frequencies().topk(3, key=1)


def dataframe() -> Any:
    import dask.dataframe
    import pandas as pd

    table = pd.DataFrame({"key": [number % 97 for number in range(500_000)], "value": range(500_000)})
    return dask.dataframe.from_pandas(table, npartitions=16).groupby("key").value.mean()


PROGRAMS = {
    "2,000 small calls": wide,
    "tree of 1,024 leaves": tree,
    "40 calls of plain Python": python_work,
    "array, 128 MB": array,
    "bag, 200,000 words": bag,
    "data frame, 500,000 rows": dataframe,
}


@contextlib.contextmanager
def schedulers() -> Iterator[dict[str, Any]]:
    """All of dask's, with as many workers, and ours. Pools are warm, but for that of `processes`, which never is."""
    from distributed import Client as DaskClient

    import scaler.integrations.dask

    quiet = {"dashboard_address": None, "silence_logs": logging.ERROR, "set_as_default": False}
    with (
        Client(n_workers=WORKERS) as ours,
        DaskClient(n_workers=WORKERS, threads_per_worker=1, **quiet) as theirs,
    ):
        yield {
            "scaler": scaler.integrations.dask.get(ours),
            "threads": "threads",
            "processes": "processes",
            "distributed": theirs.get,
        }


def measure_dask(rounds: int, seconds: float) -> Found:
    found: Found = {}
    failed: set[str] = set()
    with schedulers() as all_of_them:
        for number in Clock(seconds).rounds("dask programs", rounds + 1):
            for what, make in PROGRAMS.items():
                for name in list(all_of_them) if number % 2 else reversed(all_of_them):
                    program, options = make(), {"num_workers": WORKERS, "scheduler": all_of_them[name]}
                    try:
                        took = seconds_of(lambda: program.compute(**options))  # noqa: B023 - it is called here
                    except Exception as error:  # noqa: BLE001 - one that fails must not cost the table
                        failed.add(f"{name} failed in {what}: {type(error).__name__}: {error}"[:200])
                        continue
                    if number:  # the first round warms up
                        found.setdefault((name, what), []).append(took)
    print("\n".join(sorted(failed)))
    return found


def show(found: Found) -> None:
    if not found:
        print("nothing was measured: there was no time for more than the first round, which warms up\n")
        return
    names, columns = (list(dict.fromkeys(parts)) for parts in zip(*found, strict=True))
    print("| seconds | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for name in names:
        print(f"| {name} | " + " | ".join(_cell(found.get((name, column), [])) for column in columns) + " |")
    rounds = {column: max(len(found.get((name, column), [])) for name in names) for column in columns}
    print("\nRounds: " + ", ".join(f"{number} of {column}" for column, number in rounds.items()) + "\n", flush=True)


def _cell(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})" if values else "-"


MEASURES = {"joblib": measure_joblib, "dask": measure_dask}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*MEASURES, []], default=[], help="default: both")
    parser.add_argument("--rounds", type=int, default=10, help="of joblib's warm calls, and of dask's programs")
    parser.add_argument("--minutes", type=float, default=2.5, help="for each of both; some seconds come on top")
    options = parser.parse_args()
    for name in options.which or MEASURES:
        show(MEASURES[name](options.rounds, options.minutes * 60))


if __name__ == "__main__":
    main()
