"""One suite for every executor: `pytest tests/conformance --engine NAME` runs it against the one of that name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.executor_bench import ExecutorBench

DASK, RAY = "dask", "ray://auto"
OURS = ("futures://tests.support.engines:processes", "inline", "processes", "symphony://ScalerService")
MORE = (DASK, RAY)
"""For these a cluster is started. They are tested in `make test-more`."""

HERE = str(Path(__file__).parent)
SOAM = str(Path(__file__).parents[1] / "support" / "soam")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", help="the engine to test, as for scaler_cluster; without it all that Scaler brings")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--engine", default=None)
        more = [pytest.param(name, marks=[pytest.mark.more, pytest.mark.alone]) for name in MORE]
        metafunc.parametrize("engine", [chosen] if chosen else [*OURS, *more], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of one engine, then all of the other: they share its processes."""
    own = [index for index, item in enumerate(items) if str(item.path).startswith(HERE)]
    by_engine = sorted((items[index] for index in own), key=lambda item: str(item.callspec.params.get("engine", "")))  # type: ignore[attr-defined]
    for index, item in zip(own, by_engine, strict=True):
        items[index] = item


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The text of `--engine`. As all tests of an engine come together, its cluster is started once."""
    if request.param not in MORE:
        yield request.param
        return
    from tests.support.engine_clusters import DaskCluster, RayCluster

    folder = tmp_path_factory.mktemp("cluster")
    cluster: Any
    with pytest.MonkeyPatch.context() as patch:
        if request.param == DASK:
            cluster = DaskCluster(folder)
            cluster.add_worker(4)
            cluster.await_workers()
            yield cluster.engine
        else:
            cluster = RayCluster(folder)
            cluster.add_node(4)
            for name, value in cluster.environment.items():
                patch.setenv(name, value)
            yield RAY
        cluster.end()


@pytest.fixture(scope="module", autouse=True)
def _grid(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The stand-in for Symphony, where that is the engine."""
    with pytest.MonkeyPatch.context() as patch:
        if engine.startswith("symphony://") and importlib.util.find_spec("soamapi") is None:
            folder = tmp_path_factory.mktemp("grid")
            (folder / "services").write_text("ScalerService")
            patch.setenv("SOAMAPI_STAND_IN", str(folder))
            patch.setattr(sys, "path", [*sys.path, SOAM])
        yield


@pytest.fixture(scope="module")
def _shared(engine: str, _grid: None) -> Iterator[ExecutorBench]:
    bench = ExecutorBench(engine, 2)
    yield bench
    bench.end()


@pytest.fixture
def bench(_shared: ExecutorBench) -> Iterator[ExecutorBench]:
    """Two workers; what a test leaves in them is the next one's, so it must leave nothing."""
    _shared.answers_needs = True
    _shared.asked.clear()
    yield _shared
    _shared.answers_needs = True
    _shared.settle(0)
    assert _shared.everything_was_answered_once()


@pytest.fixture
def new_bench(engine: str) -> Iterator[Callable[..., ExecutorBench]]:
    """Starts an executor of its own, for settings or an end of its own."""
    benches: list[ExecutorBench] = []

    def start(*arguments: Any, **settings: Any) -> ExecutorBench:
        benches.append(ExecutorBench(engine, *arguments, **settings))
        return benches[-1]

    yield start
    for bench in benches:
        if not bench.shell.dispatcher.is_closed:
            bench.end()


class Gate:
    """A file that tasks wait for, wherever they run; and what they have noted meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "gate")
        self.log = str(folder / "log")

    def open(self) -> None:
        Path(self.path).touch()

    def noted(self) -> list[str]:
        return Path(self.log).read_text().split() if Path(self.log).exists() else []


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path)
    yield gate
    gate.open()
