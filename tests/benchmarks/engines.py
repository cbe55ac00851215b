"""What Scaler in front of an engine costs: the rate and the round trip of no-ops through it, beside the engine alone.

*More per task* is what a task of many takes longer through Scaler, by these rates.

Each engine has two places, and Scaler keeps so many tasks with it as `--at-once` says. An engine that is not installed
is left out.

    python tests/benchmarks/engines.py
    python tests/benchmarks/engines.py dask ray --tasks 2000
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from scaler import Client, SchedulerClusterCombo  # noqa: E402

PLACES = 2


class Engine(NamedTuple):
    """An engine that is up."""

    text: str
    """for `--engine`"""
    submit: Callable[[int], Any] | None = None
    """a no-op, without Scaler"""
    gather: Callable[[Sequence[Any]], Any] | None = None
    """waits for what `submit` has returned"""


class Figures(NamedTuple):
    """No-ops each second, and the median of the round trip in milliseconds."""

    rate: float
    round_trip_ms: float


def spawned() -> Executor:
    """Return what `--engine` of the second row makes."""
    return ProcessPoolExecutor(PLACES, mp_context=multiprocessing.get_context("spawn"))


def loky_pool() -> Executor:
    """Return what `--engine` of the third row makes."""
    import loky

    return loky.ProcessPoolExecutor(PLACES)


def results(futures: Sequence[Any]) -> None:
    for future in futures:
        future.result()


@contextmanager
def processes(_folder: Path) -> Iterator[Engine]:
    yield Engine("processes")


@contextmanager
def pool(_folder: Path) -> Iterator[Engine]:
    with spawned() as executor:
        yield Engine("tests.benchmarks.engines:spawned", lambda number: executor.submit(abs, number), results)


@contextmanager
def loky(_folder: Path) -> Iterator[Engine]:
    with loky_pool() as executor:
        yield Engine("tests.benchmarks.engines:loky_pool", lambda number: executor.submit(abs, number), results)


@contextmanager
def dask(folder: Path) -> Iterator[Engine]:
    import distributed

    from tests.support.engine_clusters import DaskCluster

    cluster = DaskCluster(folder)
    cluster.add_worker(PLACES)
    try:
        with distributed.Client(cluster.address, set_as_default=False) as client:
            yield Engine(cluster.engine, lambda number: client.submit(abs, number, pure=False), client.gather)
    finally:
        cluster.end()


@contextmanager
def ray(folder: Path) -> Iterator[Engine]:
    import ray as ray_

    from tests.support.engine_clusters import RayCluster

    cluster = RayCluster(folder)
    cluster.add_node(PLACES)
    os.environ.update(cluster.environment)
    try:
        ray_.init(address="auto", log_to_driver=False, configure_logging=False)
        remote = ray_.remote(lambda number: abs(number))  # noqa: PLW0108 - Ray takes no builtin
        yield Engine("ray://auto", remote.remote, ray_.get)
        ray_.shutdown()
    finally:
        cluster.end()


ENGINES = {"processes": processes, "ProcessPoolExecutor": pool, "loky": loky, "dask": dask, "ray": ray}
PACKAGES = {"loky": "loky", "dask": "distributed", "ray": "ray"}


def measured(submit: Callable[[int], Any], gather: Callable[[Sequence[Any]], Any], n_tasks: int) -> Figures:
    """Measure one way to run no-ops. The first ones, which start processes, do not count."""
    gather([submit(number) for number in range(20)])
    started = time.perf_counter()
    gather([submit(number) for number in range(n_tasks)])
    rate = n_tasks / (time.perf_counter() - started)
    times = []
    for number in range(100):
        started = time.perf_counter()
        gather([submit(number)])
        times.append(time.perf_counter() - started)
    return Figures(rate, 1000 * statistics.median(times))


def compare(name: str, n_tasks: int, at_once: int) -> tuple[Figures | None, Figures]:
    """Return the figures of the engine alone, if it can be alone, and through Scaler."""
    with tempfile.TemporaryDirectory() as folder, ENGINES[name](Path(folder)) as engine:
        alone = measured(engine.submit, engine.gather, n_tasks) if engine.submit and engine.gather else None
        n_workers = at_once if alone else PLACES
        with (
            SchedulerClusterCombo(n_workers, engine=engine.text, logging_level="ERROR") as combo,
            Client(combo.get_address()) as client,
        ):
            return alone, measured(lambda number: client.submit(abs, number), results, n_tasks)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("engines", nargs="*", choices=[*ENGINES, []], help="all that are installed, if none is named")
    parser.add_argument("--tasks", type=int, default=1000, help="how many no-ops the rate is of")
    parser.add_argument("--at-once", type=int, default=8, help="how many tasks Scaler has with the engine at once")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    rows = {}
    for name in arguments.engines or ENGINES:
        if importlib.util.find_spec(PACKAGES.get(name, "scaler")) is None:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        rows[name] = compare(name, arguments.tasks, arguments.at_once)
    if arguments.json:
        print(json.dumps(rows))
        return
    print("| engine | alone, tasks/s | through Scaler | more per task | alone, round trip | through Scaler |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, (alone, through) in rows.items():
        rate, trip = (f"{alone.rate:,.0f}", f"{alone.round_trip_ms:.2f} ms") if alone else ("", "")
        more = f"{1000 / through.rate - 1000 / alone.rate:.2f} ms" if alone else ""
        print(f"| {name} | {rate} | {through.rate:,.0f} | {more} | {trip} | {through.round_trip_ms:.2f} ms |")


if __name__ == "__main__":
    main()
