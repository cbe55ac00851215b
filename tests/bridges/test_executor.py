"""CPython's own tests of executors, with ours: those of the interpreter that runs this, or else those of Debian.

What is left out, and why:

- `test_interpreter_shutdown`, `test_submit_after_interpreter_shutdown`, `test_hang_gh83386`: programs that import an
  executor of the standard library by its name and never end it. A client that is left open ends with its program.
- the tests of the pools themselves (`test_thread_pool`, `test_process_pool`, `test_init`, `test_deadlock`): threads,
  processes and initializers that our executor does not have.
- the tests of futures (`test_future`): ours are those of the standard library.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import cloudpickle
import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.client.executor import ClientExecutor
from tests.support.processes import run_script

pytestmark = pytest.mark.more

PACKAGE = "test.test_concurrent_futures"
LEFT_OUT = frozenset(
    {
        "test_interpreter_shutdown",
        "test_submit_after_interpreter_shutdown",
        "test_hang_gh83386",
    }
)
MIXINS = (
    ("executor", "ExecutorTest"),
    ("test_wait", "WaitTests"),
    ("test_as_completed", "AsCompletedTests"),
    ("test_shutdown", "ExecutorShutdownTest"),
)


def debians_own() -> types.ModuleType | None:
    """Return the file of `libpython3.X-testsuite`, which `make test-more` installs; its functions travel by value."""
    major, minor = sys.version_info[:2]
    path = Path(f"/usr/lib/python{major}.{minor}/test/test_concurrent_futures.py")
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("of_debian", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    return module


def module_of(part: str) -> types.ModuleType | None:
    """Return where a mixin is: a package since Python 3.12, and one file before."""
    for name in (f"{PACKAGE}.{part}", PACKAGE):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return sys.modules.get("of_debian") or debians_own()


def its_tests() -> list[tuple[type, str]]:
    """Return the mixins of the interpreter's tests, with the names of their tests."""
    found = []
    for part, mixin in MIXINS:
        module = module_of(part)
        if module is None:
            return []
        tests = getattr(module, mixin)
        found += [(tests, name) for name in sorted(vars(tests)) if name.startswith("test_") and name not in LEFT_OUT]
    return found


TESTS = its_tests()


WORKERS = 5
"""that a test of them needs at once"""
AT_ONCE = 4
"""so many of the tests: most of them wait for tasks that sleep"""
WITH_SIGNALS = frozenset({"test_hang_gh94440"})
"""these set an alarm, which only the main thread may"""


class Ours(unittest.TestCase):
    """What the mixins expect of a test case."""

    client: ClassVar[Client]
    worker_count = WORKERS

    def executor_type(self, max_workers: int | None = None) -> ClientExecutor:
        return self.client.as_executor(max_workers)

    def setUp(self) -> None:
        self.executor = self.client.as_executor(self.worker_count)

    def tearDown(self) -> None:
        self.executor.shutdown(wait=True)


def problems_of(client: Client, mixin: type, name: str) -> str:
    """Run one of the tests, and return what it complains of."""
    case = types.new_class(mixin.__name__, (mixin, Ours), {}, lambda body: body.update(client=client))
    result = unittest.TestResult()
    case(name).run(result)
    return "\n".join(text for _, text in (*result.errors, *result.failures))


@pytest.fixture(scope="module")
def problems() -> Iterator[dict[tuple[type, str], str]]:
    workers = AT_ONCE * WORKERS
    with (
        SchedulerClusterCombo(workers, logging_level="WARNING") as combo,
        Client(combo.get_address()) as client,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        client.wait_for_workers(workers)
        here = [test for test in TESTS if test[1] in WITH_SIGNALS]
        there = [test for test in TESTS if test[1] not in WITH_SIGNALS]
        found = dict(zip(there, threads.map(lambda test: problems_of(client, *test), there), strict=True))
        yield {**found, **{test: problems_of(client, *test) for test in here}}


def test_the_interpreter_has_its_tests_or_this_file_tests_nothing() -> None:
    if not TESTS:
        pytest.skip(f"this Python was installed without {PACKAGE}, and there is none of Debian for it")
    assert len(TESTS) >= 20
    assert {name for mixin, _ in TESTS for name in vars(mixin)} & LEFT_OUT


@pytest.mark.parametrize("test", TESTS, ids=lambda test: f"{test[0].__name__}.{test[1]}")
def test_as_the_standard_library(problems: dict[tuple[type, str], str], test: tuple[type, str]) -> None:
    assert not problems[test], problems[test]


def test_a_program_that_does_not_end_its_executor_does_not_wait_for_it() -> None:
    """Those of the standard library do, which is what the tests that are left out ask for."""
    program = """
import time
from scaler import Client
client = Client(n_workers=1)
client.submit(abs, -1).result()
client.as_executor().submit(time.sleep, 600)
print("at its end")
"""
    done = run_script(program, seconds=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "at its end\n", "")
