"""Tasks that wait for tasks of their own: none of this may ever stand still, however few workers there are."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, as_completed, wait
from pathlib import Path

import pytest

from scaler import Client, ProcessorDiedError, SchedulerClusterCombo
from tests.support.processes import descendants, wait_until

SECONDS = 60


@pytest.fixture(scope="module")
def combo() -> Iterator[SchedulerClusterCombo]:
    """One worker with one place: whatever could stand still does."""
    with SchedulerClusterCombo(n_workers=1, per_worker_queue_size=1, logging_level="WARNING") as one:
        yield one


@pytest.fixture
def client(combo: SchedulerClusterCombo) -> Iterator[Client]:
    with Client(combo.get_address()) as one:
        yield one


def increment(value: int) -> int:
    return value + 1


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def fibonacci(client: Client, n: int) -> int:
    if n < 2:
        return n
    first, second = client.submit(fibonacci, client, n - 1), client.submit(fibonacci, client, n - 2)
    return int(first.result() + second.result())


def parent(client: Client, value: int) -> int:
    return int(client.submit(increment, value).result())


def map_children(client: Client, count: int) -> int:
    return sum(client.map(increment, [(value,) for value in range(count)]))


def parent_of_parents(client: Client, count: int) -> int:
    return sum(client.map(parent, [(client, value) for value in range(count)]))


def wait_in_threads(client: Client, count: int) -> int:
    """The main thread joins threads that wait, which nobody can see."""
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda value=value: results.append(client.submit(parent, client, value).result()))
        for value in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(results)


def wait_for_the_first(client: Client) -> int:
    futures = [client.submit(parent, client, value) for value in range(3)]
    done, _ = wait(futures, return_when=FIRST_COMPLETED)
    return len(done) > 0 and sum(future.result() for future in as_completed(futures))


def await_children(client: Client) -> int:
    async def both() -> int:
        first = client.submit(parent, client, 1)
        second = asyncio.wrap_future(client.submit(parent, client, 2))
        return int(await first) + int(await second)

    return asyncio.run(both())


def exceptions_of_children(client: Client) -> list[str]:
    futures = [client.submit(divide, value) for value in (0, 1)]
    return [type(future.exception()).__name__ for future in futures]


def divide(value: int) -> float:
    return 1 / value


def wait_a_little(client: Client) -> str:
    future = client.submit(nap, 2.0)
    try:
        future.result(timeout=0.2)
    except concurrent.futures.TimeoutError:  # the builtin one since Python 3.11
        return "timed out"
    return "arrived"


def large_child(client: Client) -> int:
    return len(client.submit(zeros, 1_000_000).result())


def zeros(count: int) -> bytes:
    return bytes(count)


def graph_in_a_task(client: Client) -> dict[str, int]:
    graph = {"a": 1, "b": (increment, "a"), "c": (parent, "client", "b"), "client": client}
    return client.get(graph, ["b", "c"])


def wait_and_die(client: Client, path: str) -> None:
    with Path(path).open("a") as marks:
        marks.write("started\n")
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    client.submit(nap, 1000).result()


def mark_and_wait(client: Client, path: str, child_path: str) -> None:
    with Path(path).open("a") as marks:
        marks.write(f"{os.getpid()}\n")
    client.submit(mark_and_nap, child_path).result()


def mark_and_nap(path: str) -> None:
    Path(path).write_text("runs")
    time.sleep(1000)


def pid_after_waiting(client: Client) -> tuple[int, int]:
    before = os.getpid()
    client.submit(increment, 1).result()
    return before, os.getpid()


def make_depth() -> Callable[[Client, int], int]:
    """A function that travels by value: this module, and the test runner with it, is not imported in each process."""

    def depth(client: Client, levels: int) -> int:
        return 0 if levels == 0 else 1 + int(client.submit(depth, client, levels - 1).result())

    return depth


depth = make_depth()


def test_fibonacci(client: Client) -> None:
    assert client.submit(fibonacci, client, 8).result(SECONDS) == 21


def test_a_blocked_task_resumes_in_its_own_process(client: Client) -> None:
    before, after = client.submit(pid_after_waiting, client).result(SECONDS)
    assert before == after


def test_many_more_waiting_parents_than_places(client: Client) -> None:
    assert client.map(parent, [(client, value) for value in range(30)]) == list(range(1, 31))


def test_a_parent_maps_a_thousand_children(client: Client) -> None:
    assert client.submit(map_children, client, 1000).result(SECONDS) == sum(range(1, 1001))


def test_a_parent_maps_parents(client: Client) -> None:
    assert client.submit(parent_of_parents, client, 10).result(SECONDS) == sum(range(1, 11))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_task_that_waits_in_threads_of_its_own(client: Client, count: int) -> None:
    assert client.submit(wait_in_threads, client, count).result(SECONDS) == sum(range(1, count + 1))


def test_wait_and_as_completed_of_the_standard_library(client: Client) -> None:
    assert client.submit(wait_for_the_first, client).result(SECONDS) == 6


def test_await_in_an_event_loop(client: Client) -> None:
    assert client.submit(await_children, client).result(SECONDS) == 5


def test_exceptions_of_children(client: Client) -> None:
    assert client.submit(exceptions_of_children, client).result(SECONDS) == ["ZeroDivisionError", "NoneType"]


def give_up(client: Client) -> int:
    child = client.submit(nap, 1000)
    with pytest.raises(concurrent.futures.TimeoutError):  # the builtin one since Python 3.11
        child.result(timeout=0.5)
    assert not child.done()
    child.cancel()
    return int(client.submit(increment, 1).result())


def test_a_wait_that_times_out(client: Client) -> None:
    assert client.submit(wait_a_little, client).result(SECONDS) == "timed out"


@pytest.mark.parametrize("is_hard", [False, True], ids=["soft", "hard"])
def test_a_parent_gives_up_on_a_child_that_has_its_place_and_never_ends(is_hard: bool) -> None:
    with (
        SchedulerClusterCombo(
            n_workers=1, per_worker_queue_size=1, hard_processor_suspend=is_hard, logging_level="WARNING"
        ) as combo,
        Client(combo.get_address()) as client,
    ):
        assert client.submit(give_up, client).result(SECONDS) == 2
        assert client.submit(increment, 1).result(SECONDS) == 2


def test_a_large_result_of_a_child(client: Client) -> None:
    assert client.submit(large_child, client).result(SECONDS) == 1_000_000


def test_a_graph_in_a_task(client: Client) -> None:
    assert client.submit(graph_in_a_task, client).result(SECONDS) == {"b": 2, "c": 3}


@pytest.mark.parametrize("deep", [50, pytest.param(200, marks=pytest.mark.more)])
def test_recursion_of_any_depth_on_one_worker(deep: int) -> None:
    with (
        SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo,
        Client(combo.get_address()) as client,
    ):
        assert client.submit(depth, client, deep).result(120) == deep
        assert client.submit(increment, 1).result(SECONDS) == 2


def test_a_parent_that_dies_while_it_waits_is_tried_again_and_its_children_are_cancelled(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    with (
        SchedulerClusterCombo(n_workers=1, per_worker_queue_size=1, logging_level="CRITICAL", crash_limit=2) as combo,
        Client(combo.get_address()) as client,
    ):
        with pytest.raises(ProcessorDiedError, match="SIGKILL"):
            client.submit(wait_and_die, client, str(marks)).result(SECONDS)
        assert marks.read_text() == "started\n" * 2
        assert client.submit(parent, client, 1).result(SECONDS) == 2


def test_a_waiting_parent_that_is_cancelled_ends_with_its_children_and_never_runs_again(
    client: Client, tmp_path: Path
) -> None:
    marks, child_marks = tmp_path / "marks", tmp_path / "child"
    future = client.submit(mark_and_wait, client, str(marks), str(child_marks))
    wait_until(child_marks.exists, "the child runs")
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(SECONDS)
    assert client.submit(increment, 1).result(SECONDS) == 2  # so the only place is free: the child has ended too
    assert len(marks.read_text().splitlines()) == 1


@pytest.mark.more
def test_unneeded_processes_end(combo: SchedulerClusterCombo, client: Client) -> None:
    assert client.submit(depth, client, 10).result(SECONDS) == 10
    agent, few = combo._cluster.pid, 5  # fork server, and four processors
    # One in which a client is just at work when it should end stays until it was idle for two more checks of 5 s.
    wait_until(lambda: len(descendants(agent)) <= few, f"all but {few} processes have ended", SECONDS)
    assert client.submit(depth, client, 3).result(SECONDS) == 3


def sum_of_squares(count: int) -> int:
    with Client() as inner, inner.as_executor() as executor:
        futures = [executor.submit(pow, n, 2) for n in range(count)]
        concurrent.futures.wait(futures[:1])
        return sum(executor.map(pow, range(count), [2] * count)) + futures[-1].result()


@pytest.mark.more
def test_a_task_that_waits_for_its_executor_gives_up_its_place(client: Client) -> None:
    assert client.submit(sum_of_squares, 10).result(SECONDS) == sum(n * n for n in range(10)) + 81
