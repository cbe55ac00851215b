"""The bridges beside what they stand in for: joblib's back-ends, and dask's schedulers. Two workers, rounds in turn.

A cold start is the first call of a back-end, with all that it starts; a warm one is the next call of the same.

    python tests/benchmarks/bridges.py                      both, five rounds: some minutes
    python tests/benchmarks/bridges.py joblib --rounds 10
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each worker, for all of them, and here

from scaler import Client

WORKERS = 2
Found = dict[tuple[str, str], list[float]]
"""seconds by row and column of a table"""


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

    yield {"backend": "loky"}
    get_reusable_executor().shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def no_backend() -> Iterator[dict[str, Any]]:
    yield {"backend": "sequential"}


def cold_and_warm(backend: Callable[[], Any]) -> tuple[float, float, list[float]]:
    """Return the seconds of the first call and of the next one, and the scores of both."""
    import joblib

    start = time.perf_counter()
    with backend() as options, joblib.parallel_config(n_jobs=WORKERS, **options):
        scores = list(grid_search().cv_results_["mean_test_score"])
        cold, start = time.perf_counter() - start, time.perf_counter()
        scores += list(grid_search().cv_results_["mean_test_score"])
        return cold, time.perf_counter() - start, scores


def measure_joblib(rounds: int) -> Found:
    import scaler.integrations.joblib

    scaler.integrations.joblib.register()
    expected = list(grid_search().cv_results_["mean_test_score"]) * 2  # and what is imported, is imported
    backends = {"scaler": scaler_backend, "loky": loky_backend, "one process": no_backend}
    found: Found = {}
    for number in range(rounds):
        for name in list(backends) if number % 2 else reversed(backends):
            cold, warm, scores = cold_and_warm(backends[name])
            assert scores == expected, f"{name} has other scores"
            found.setdefault((name, "grid search, cold"), []).append(cold)
            found.setdefault((name, "warm"), []).append(warm)
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


def measure_dask(rounds: int) -> Found:
    found: Found = {}
    with schedulers() as all_of_them:
        for number in range(rounds + 1):
            for what, make in PROGRAMS.items():
                for name in list(all_of_them) if number % 2 else reversed(all_of_them):
                    program, options = make(), {"num_workers": WORKERS, "scheduler": all_of_them[name]}
                    seconds = seconds_of(lambda: program.compute(**options))  # noqa: B023 - it is called here
                    if number:  # the first round warms up
                        found.setdefault((name, what), []).append(seconds)
    return found


def show(found: Found) -> None:
    names, columns = (list(dict.fromkeys(parts)) for parts in zip(*found, strict=True))
    print("| seconds | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for name in names:
        cells = [f"{statistics.median(v):.2f} ({min(v):.2f}-{max(v):.2f})" for v in (found[name, c] for c in columns)]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


MEASURES = {"joblib": measure_joblib, "dask": measure_dask}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*MEASURES, []], default=[], help="default: both")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for name in options.which or MEASURES:
        show(MEASURES[name](options.rounds))


if __name__ == "__main__":
    main()
