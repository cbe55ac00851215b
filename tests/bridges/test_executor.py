"""CPython's own tests of executors, with ours: those of the interpreter that runs this, or else those of Debian. Then
how both cancel.

What is left out, and why:

- `test_interpreter_shutdown`, `test_submit_after_interpreter_shutdown`, `test_hang_gh83386`: programs that import an
  executor of the standard library by its name and never end it. A client that is left open ends with its program.
- the tests of the pools themselves (`test_thread_pool`, `test_process_pool`, `test_init`, `test_deadlock`): threads,
  processes and initializers that our executor does not have.
- the tests of futures (`test_future`): ours are those of the standard library.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import sys
import tempfile
import time
import types
import unittest
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import ClassVar, NamedTuple

import cloudpickle
import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.client.executor import ClientExecutor
from tests.bridges.needs import needs
from tests.support.processes import complaints, run_script

pytestmark = pytest.mark.more

PACKAGE = "test.test_concurrent_futures"
LEFT_OUT = frozenset(
    {
        "test_interpreter_shutdown",
        "test_submit_after_interpreter_shutdown",
        "test_hang_gh83386",
    }
)


class Theirs(NamedTuple):
    """One of their tests."""

    part: str
    mixin: str
    name: str


MIXINS = (
    ("executor", "ExecutorTest"),
    ("test_wait", "WaitTests"),
    ("test_as_completed", "AsCompletedTests"),
    ("test_shutdown", "ExecutorShutdownTest"),
)


def debians_file() -> Path | None:
    """Return the file of `libpython3.X-testsuite`, which `make test-more` installs."""
    major, minor = sys.version_info[:2]
    path = Path(f"/usr/lib/python{major}.{minor}/test/test_concurrent_futures.py")
    return path if path.exists() else None


def file_of(part: str) -> Path | None:
    """Return where a mixin is: a file of a package since Python 3.12, and one file for all before."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None:
        return debians_file()
    if package.submodule_search_locations:
        return Path(package.submodule_search_locations[0], f"{part}.py")
    return Path(package.origin) if package.origin else None


def its_tests() -> list[Theirs]:
    """Return the interpreter's tests. They are read and not imported: this file is collected for all tests, and theirs
    change the process that imports them.
    """
    found = []
    for part, mixin in MIXINS:
        file = file_of(part)
        if file is None or not file.exists():
            return []
        for body in ast.parse(file.read_bytes()).body:
            if isinstance(body, ast.ClassDef) and body.name == mixin:
                names = sorted(each.name for each in body.body if isinstance(each, ast.FunctionDef))
                found += [Theirs(part, mixin, name) for name in names if name.startswith("test_")]
    return found


@contextlib.contextmanager
def imported() -> Iterator[Callable[[str], types.ModuleType]]:
    """Have their modules, by part, for a while. The functions of Debian's travel by value."""
    package = importlib.util.find_spec(PACKAGE)
    if package is not None:
        is_package = bool(package.submodule_search_locations)
        yield lambda part: importlib.import_module(f"{PACKAGE}.{part}" if is_package else PACKAGE)
        return
    spec = importlib.util.spec_from_file_location("of_debian", file_of(""))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        cloudpickle.register_pickle_by_value(module)
        try:
            yield lambda _part: module
        finally:
            cloudpickle.unregister_pickle_by_value(module)


ALL_TESTS = its_tests()
TESTS = [test for test in ALL_TESTS if test.name not in LEFT_OUT]


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
def problems() -> Iterator[dict[Theirs, str]]:
    workers = AT_ONCE * WORKERS
    with contextlib.ExitStack() as stack:
        module_of = stack.enter_context(imported())
        combo = stack.enter_context(SchedulerClusterCombo(workers, logging_level="WARNING"))
        client = stack.enter_context(Client(combo.get_address()))
        threads = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        client.wait_for_workers(workers)

        def run(test: Theirs) -> str:
            return problems_of(client, getattr(module_of(test.part), test.mixin), test.name)

        here = [test for test in TESTS if test.name in WITH_SIGNALS]
        there = [test for test in TESTS if test.name not in WITH_SIGNALS]
        found = dict(zip(there, threads.map(run, there), strict=True))
        # They have bounds of a few seconds: on a busy machine, one that failed beside others is tried once more, alone.
        found = {test: said and run(test) for test, said in found.items()}
        yield {**found, **{test: run(test) for test in here}}


def test_the_interpreter_has_its_tests_or_this_file_tests_nothing() -> None:
    if not TESTS:
        pytest.skip(f"this Python was installed without {PACKAGE}, and there is none of Debian for it")
    assert len(TESTS) >= 20
    assert {test.name for test in ALL_TESTS} & LEFT_OUT


@pytest.mark.parametrize("test", TESTS, ids=lambda test: f"{test.mixin}.{test.name}")
def test_as_the_standard_library(problems: dict[Theirs, str], test: Theirs) -> None:
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
    assert (done.returncode, done.stdout) == (0, "at its end\n")
    (complaint,) = complaints(done.stderr).splitlines()
    assert complaint.startswith("1 open task was cancelled, because the client has ended")


NAPS, NAP_SECONDS = 60, 0.5
SLACK = 8
"""On a busy machine so many more may begin before they are cancelled."""


def nap(folder: str, number: int) -> int:
    Path(folder, str(number)).touch()
    time.sleep(NAP_SECONDS)
    return number


def nap_or_raise(folder: str, number: int) -> int:
    if number == 0:
        raise ValueError(number)
    return nap(folder, number)


class Row(NamedTuple):
    """What became of the naps of one program."""

    seconds: float
    begun: int
    cancelled: int


def naps_of(executor: Executor, folder: str) -> list[Future[int]]:
    """Submit naps, and return when the first has ended."""
    futures = [executor.submit(nap, folder, number) for number in range(NAPS)]
    futures[0].result()
    return futures


def row(executor: Executor, program: Callable[[Executor, str], Sequence[Future[int]]]) -> Row:
    """Run a program, which ends the executor. What is cancelled has not begun, and all else has its result."""
    assert list(executor.map(abs, range(4))) == [0, 1, 2, 3]
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        futures = program(executor, folder)
        seconds = time.monotonic() - began
        begun = {int(path.name) for path in Path(folder).iterdir()}
    for number, future in enumerate(futures):
        assert future.cancelled() == (number not in begun)
        assert future.cancelled() or future.result(0) == number
    return Row(seconds, len(begun), sum(future.cancelled() for future in futures))


def cancel_all(executor: Executor, folder: str) -> Sequence[Future[int]]:
    futures = naps_of(executor, folder)
    said = [future.cancel() for future in futures]
    executor.shutdown()
    assert said == [future.cancelled() for future in futures]
    return futures


def shut_down(executor: Executor, folder: str) -> Sequence[Future[int]]:
    futures = naps_of(executor, folder)
    executor.shutdown(cancel_futures=True)
    return futures


def leave_a_map_that_raises(executor: Executor, folder: str) -> Sequence[Future[int]]:
    with pytest.raises(ValueError, match="0"), executor:
        list(executor.map(nap_or_raise, [folder] * NAPS, range(NAPS)))
    return ()


def leave_a_map_that_is_late(executor: Executor, folder: str) -> Sequence[Future[int]]:
    with pytest.raises(FutureTimeoutError), executor:
        list(executor.map(nap, [folder] * NAPS, range(NAPS), timeout=2 * NAP_SECONDS))
    return ()


@pytest.fixture(scope="module")
def pair() -> Iterator[Client]:
    with Client(n_workers=2) as client:
        client.wait_for_workers(2)
        yield client


def test_dask_takes_it_for_a_pool_of_threads(pair: Client) -> None:
    dask = needs("dask")
    with pair.as_executor() as executor, dask.config.set(pool=executor, scheduler="threads"):
        assert dask.delayed(sum)([dask.delayed(abs)(-number) for number in range(5)]).compute() == 10


@pytest.mark.parametrize("program", [cancel_all, shut_down, leave_a_map_that_raises, leave_a_map_that_is_late])
def test_a_client_executor_cancels_as_a_pool_does(
    pair: Client, program: Callable[[Executor, str], Sequence[Future[int]]]
) -> None:
    theirs = row(ProcessPoolExecutor(2), program)
    ours = row(pair.as_executor(), program)
    assert ours.begun <= theirs.begun + SLACK
    assert ours.cancelled >= theirs.cancelled - SLACK
    assert ours.seconds < theirs.seconds + SLACK * NAP_SECONDS
