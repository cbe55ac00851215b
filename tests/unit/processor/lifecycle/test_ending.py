"""Processes that a task forks never become a second processor, and end as any forked process does."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.support.processor import Driver, failure_of, value_of

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("processor"))
    yield driver
    driver.close()


def end_of_child(child: Callable[[], Any]) -> Any:
    """Fork, and call `child` in the child process. Return the child's exit code in the parent."""
    pid = os.fork()
    if pid == 0:
        return child()
    return os.getpid(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fail() -> None:
    raise LookupError("nothing here")


def interrupted() -> None:
    raise KeyboardInterrupt


def keep_a_thread() -> None:
    threading.Thread(target=lambda: (threading.Event().wait(0.2), os._exit(9))).start()


@pytest.mark.parametrize(
    ("child", "code"),
    [
        (lambda: "a result", 0),
        (threading.Lock, 0),  # no result either, because it cannot be pickled
        (sys.exit, 0),
        (lambda: sys.exit(0), 0),
        (lambda: sys.exit(3), 3),
        (lambda: sys.exit(256 + 4), 4),
        (lambda: sys.exit("a last word"), 1),
        (fail, 1),
        (interrupted, 130),
        (keep_a_thread, 9),
        (lambda: end_of_child(lambda: sys.exit(5)) and sys.exit(6), 6),
    ],
)
def test_a_forked_child_that_returns_ends_with_its_exit_code(
    driver: Driver, child: Callable[[], Any], code: int
) -> None:
    for _ in range(3):
        assert value_of(driver.call(end_of_child, child)) == (driver.process.pid, code)
    assert value_of(driver.call(os.getpid)) == driver.process.pid


def test_a_forked_child_prints_why_it_ends_to_standard_error(driver: Driver) -> None:
    driver.call(end_of_child, fail)
    driver.call(end_of_child, lambda: sys.exit("a last word"))
    assert "in fail" in driver.log_text
    assert "LookupError: nothing here" in driver.log_text
    assert "a last word" in driver.log_text


def test_queued_tasks_are_not_run_by_a_forked_child(driver: Driver) -> None:
    forking, following = driver.function(end_of_child), driver.function(os.getpid)
    for _ in range(10):
        driver.send(driver.task(forking, lambda: 0), *(driver.task(following) for _ in range(5)))
        first, *following_results = driver.results(6)
        assert value_of(first) == (driver.process.pid, 0)
        assert {value_of(other) for other in following_results} == {driver.process.pid}


def test_a_child_forked_while_a_result_is_pickled_ends(driver: Driver) -> None:
    class Forks:
        def __reduce__(self) -> Any:
            return int, (end_of_child(lambda: (0, 0))[1],)

    driver.send(driver.task(driver.function(Forks)), driver.task(driver.function(os.getpid)))
    assert [value_of(result) for result in driver.results(2)] == [0, driver.process.pid]


def test_a_child_forked_in_a_thread_ends_with_that_thread(driver: Driver) -> None:
    def fork_in_a_thread() -> Any:
        ends: list[Any] = []
        thread = threading.Thread(target=lambda: ends.append(end_of_child(lambda: (0, 0))))
        thread.start()
        thread.join()
        return ends

    assert value_of(driver.call(fork_in_a_thread)) == [(driver.process.pid, 0)]
    assert value_of(driver.call(os.getpid)) == driver.process.pid


def test_parent_may_fail_while_the_child_returns(driver: Driver) -> None:
    def fork_and_fail() -> Any:
        if end_of_child(lambda: None):
            raise ValueError("the parent")

    assert failure_of(driver.call(fork_and_fail)).text == "the parent"


def test_a_forked_child_has_no_connection_to_the_agent(driver: Driver) -> None:
    def connections() -> Any:
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, str(psutil.Process().net_connections("all")).encode())
            os._exit(0)
        os.wait()
        return os.read(read, 4096)

    assert value_of(driver.call(connections)) == b"[]"


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing_works_in_a_task(driver: Driver, method: str) -> None:
    def use(method: str) -> Any:
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
            powers = list(pool.map(pow, range(10), [2] * 10))
        with context.Pool(2) as processes:
            return powers, processes.map(abs, range(-3, 0))

    assert value_of(driver.call(use, method)) == ([each**2 for each in range(10)], [3, 2, 1])
    assert value_of(driver.call(os.getpid)) == driver.process.pid
