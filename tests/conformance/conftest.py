"""One suite for every executor: `pytest tests/conformance --engine NAME` runs it against the one of that name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Generator, Iterator
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
        more = [pytest.param(name, marks=[pytest.mark.more, pytest.mark.alone, pytest.mark.foreign]) for name in MORE]
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


HAS_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """For the bench: whether its test has failed."""
    report = yield
    item.stash[HAS_FAILED] = report.failed or item.stash.get(HAS_FAILED, False)
    return report


class Shared:
    """The bench of the tests of a module, until one of them leaves something in it: the next one gets another."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._bench: ExecutorBench | None = None

    def take(self) -> ExecutorBench:
        self._bench = self._bench or ExecutorBench(self._engine, 2)
        self._bench.answers_needs = True
        self._bench.asked.clear()
        return self._bench

    def end(self) -> None:
        bench, self._bench = self._bench, None
        if bench is not None:
            bench.end()


@pytest.fixture(scope="module")
def _shared(engine: str, _grid: None) -> Iterator[Shared]:
    shared = Shared(engine)
    yield shared
    shared.end()


@pytest.fixture
def bench(_shared: Shared, request: pytest.FixtureRequest) -> Iterator[ExecutorBench]:
    """Two workers; what a test leaves in them is the next one's, so it must leave nothing."""
    bench = _shared.take()
    yield bench
    bench.answers_needs = True
    is_clean = False
    try:
        bench.settle(0)
        assert bench.everything_was_answered_once()
        is_clean = not request.node.stash.get(HAS_FAILED, False)
    finally:
        if not is_clean:
            _shared.end()


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
