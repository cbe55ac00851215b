"""What every test shares."""

from __future__ import annotations

import contextlib
import gc
import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from scaler.settings import PROCESSES
from tests.support.leftovers import Leftovers
from tests.support.lengths import Lengths, table_for

if TYPE_CHECKING:
    from tests.integration.test_keys import Site

# The same examples on each run (a failure in CI is a failure here), and no wall-clock deadline on busy machines;
# the timeout of pytest still bounds each test. `make fast` and `make test` take 5, pytest alone 25, `make test-more`
# 200. To look for new ones, there is also the profile `explore`.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("few", derandomize=True, deadline=None, max_examples=5)
settings.register_profile("many", derandomize=True, deadline=None, max_examples=200)
settings.register_profile("explore", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

# A shell without job control starts what is in the background with SIGINT ignored, and every process below inherits
# that. Tests of Ctrl-C mean the usual program.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What the environment says is for the programs of whoever runs the tests.
for _row in (row for kind in PROCESSES for row in kind.rows()):
    os.environ.pop(_row.variable, None)

# Schedulers make their keys here, and not in the home of whoever runs the tests. Each process of pytest has its own.
KEYS = Path(tempfile.mkdtemp(prefix="scaler-tests-keys-"))
os.environ["SCALER_KEY_FOLDER"] = str(KEYS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--note-lengths", action="store_true", help="write how long each file takes; see support/lengths.py"
    )


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected: nearly all that is made before lives as long as the program
    config.addinivalue_line("markers", "alone: one of `more` that takes the whole machine, and runs beside no other")
    if not _is_one_of_several(config):
        config.pluginmanager.register(Leftovers())
    if config.getoption("--note-lengths") and not _is_one_of_several(config):
        config.pluginmanager.register(Lengths(table_for(config.option.markexpr)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One at a time: cheapest first, so that a mistake in a unit shows before the tests with real processes are run.

    Several at a time: longest first, so that they end together.
    """
    order = ["unit", "property", "architecture", "simulation", "conformance", "integration", "faults"]

    def cost(item: pytest.Item) -> int:
        return next((order.index(part) for part in item.path.parts if part in order), len(order))

    items.sort(key=cost)
    for item in items:
        if item.get_closest_marker("foreign"):
            item.add_marker(pytest.mark.flaky(reruns=1))
    if _is_one_of_several(config):
        Lengths(table_for(config.option.markexpr)).order(items)


@contextlib.contextmanager
def _without_new_keys() -> Iterator[None]:
    """Remove the keys that are made here: the system gives the port of a scheduler that has ended to a later one, and
    who calls that would find keys that are none of its own.
    """
    before = set(KEYS.iterdir())
    yield
    for folder in set(KEYS.iterdir()) - before:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def _keys_of_module() -> Iterator[None]:
    with _without_new_keys():
        yield


@pytest.fixture(autouse=True)
def _keys_of_test() -> Iterator[None]:
    with _without_new_keys():
        yield


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """This user has neither a home nor an entry in the list of users."""

    def unknown(number: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)


def pytest_unconfigure() -> None:
    shutil.rmtree(KEYS, ignore_errors=True)


def pytest_collection_finish() -> None:
    """Leave thousands of tests and modules out of each collection of garbage from now on."""
    gc.enable()
    gc.freeze()


def _is_one_of_several(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in which all users can make files, as /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="scaler-test-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A scheduler with keys; tests that need other settings of it have their own."""
    from tests.integration.test_keys import Site

    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path / "home"))
    site = Site(tmp_path)
    yield site
    site.end()
