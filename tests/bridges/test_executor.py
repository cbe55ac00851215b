"""CPython's own tests of executors, with ours: those of the interpreter that runs this, if it has them.

What is left out, and why:

- `test_interpreter_shutdown`, `test_submit_after_interpreter_shutdown`, `test_hang_gh83386`: programs that import an
  executor of the standard library by its name and never end it. A client that is left open ends with its program.
- the tests of the pools themselves (`test_thread_pool`, `test_process_pool`, `test_init`, `test_deadlock`): threads,
  processes and initializers that our executor does not have.
"""

from __future__ import annotations

import importlib
import types
import unittest
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.client.executor import ClientExecutor

pytestmark = pytest.mark.more

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


def its_tests() -> list[tuple[type, str]]:
    """Return the mixins of the interpreter's tests, with the names of their tests."""
    found = []
    for module, mixin in MIXINS:
        try:
            tests = getattr(importlib.import_module(f"test.test_concurrent_futures.{module}"), mixin)
        except ImportError:
            return []
        found += [(tests, name) for name in sorted(vars(tests)) if name.startswith("test_") and name not in LEFT_OUT]
    return found


TESTS = its_tests()


class Ours(unittest.TestCase):
    """What the mixins expect of a test case."""

    client: ClassVar[Client]
    worker_count = 5

    def executor_type(self, max_workers: int | None = None) -> ClientExecutor:
        return self.client.as_executor(max_workers)

    def setUp(self) -> None:
        self.executor = self.client.as_executor(self.worker_count)

    def tearDown(self) -> None:
        self.executor.shutdown(wait=True)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with SchedulerClusterCombo(n_workers=5, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        yield client


def test_the_interpreter_has_its_tests_or_this_file_tests_nothing() -> None:
    if not TESTS:
        pytest.skip("this Python was installed without test.test_concurrent_futures")
    assert len(TESTS) >= 20
    assert {name for mixin, _ in TESTS for name in vars(mixin)} >= LEFT_OUT


@pytest.mark.parametrize(("mixin", "name"), TESTS, ids=lambda part: getattr(part, "__name__", part))
def test_as_the_standard_library(client: Client, mixin: Any, name: str) -> None:
    case = types.new_class(mixin.__name__, (mixin, Ours), {}, lambda body: body.update(client=client))
    result = unittest.TestResult()
    case(name).run(result)
    problems = "\n".join(text for _, text in (*result.errors, *result.failures))
    assert not problems, problems
