from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, wait
from queue import Queue
from typing import Any

import pytest

from scaler import Client, ConfigError, SerializeObjectError
from scaler.wire.messages.client import Task, TaskCancel
from tests.support.fake_scheduler import FakeScheduler


def keywords(**given: object) -> dict[str, object]:
    return given


def test_an_executor_has_the_interface_of_the_standard_library_and_the_options_of_its_client(
    client: Client, scheduler: FakeScheduler
) -> None:
    with client.options(name="load").as_executor() as executor:
        assert isinstance(executor, Executor)
        future = executor.submit(abs, -1)
        assert isinstance(future, Future)
        assert future.result(10) == 1
        assert executor.submit(keywords, name=1, profiling=2, self=3, fn=4).result(10) == {
            "name": 1, "profiling": 2, "self": 3, "fn": 4,
        }  # fmt: skip
    assert {task.name for task in scheduler.of(Task)} == {"load"}
    assert client.submit(abs, -2).result(10) == 2  # the client stays connected


def test_map_of_an_executor_behaves_as_that_of_the_standard_library(client: Client, scheduler: FakeScheduler) -> None:
    executor = client.as_executor()
    assert list(executor.map(pow, [2, 3, 4], [2, 2])) == [4, 9]
    before = len(scheduler.of(Task))
    assert list(executor.map(abs, range(-5, 5), chunksize=4)) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    assert len(scheduler.of(Task)) - before == 3
    results = executor.map(divmod, [1, 1, 1], [1, 0, 1], chunksize=1)
    assert next(results) == (1, 0)
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(abs, [1], chunksize=0)


def test_a_future_is_pending_and_can_be_cancelled_until_its_task_starts(
    client: Client, scheduler: FakeScheduler
) -> None:
    scheduler.answers_tasks = False
    executor = client.as_executor(max_workers=3)
    futures = [executor.submit(abs, -n) for n in range(5)]
    told: list[Future[int]] = []
    for future in futures:
        future.add_done_callback(told.append)
    begun, second, third = scheduler.wait_for(Task, 3)
    assert "3 submitted, 2 waiting" in repr(executor)
    scheduler.begun.add(begun.task_id)
    assert [future.cancel() for future in reversed(futures)] == [True, True, True, True, False]
    assert told == futures[:0:-1]
    assert wait(futures[1:], 10).done == set(futures[1:]), "who waits for them hears of it"
    assert not futures[0].cancelled()
    assert all(future.cancel() for future in futures[1:]), "once more is no error"
    cancels = scheduler.of(TaskCancel)
    assert {(cancel.task_id, cancel.waiting) for cancel in cancels} == {
        (task.task_id, 1) for task in (begun, second, third)
    }
    scheduler.run(begun)
    assert futures[0].result(10) == 0
    assert not futures[0].cancel()
    executor.shutdown()
    assert len(scheduler.of(Task)) == 3, "the others were never handed over"


def test_a_callback_may_cancel_other_futures(
    client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.client.future.ANSWER_SECONDS", 600.0)
    scheduler.answers_tasks = False
    executor = client.as_executor()
    first, *others = [executor.submit(abs, -n) for n in range(3)]
    said: Queue[bool] = Queue()
    first.add_done_callback(lambda _first: [said.put(other.cancel()) for other in others])
    scheduler.run(scheduler.wait_for(Task, 3)[0])
    assert [said.get(timeout=30) for _ in others] == [True, True]
    executor.shutdown()


def test_shutdown_cancels_tasks_that_have_not_started_and_waits_for_running_ones(
    client: Client, scheduler: FakeScheduler
) -> None:
    scheduler.answers_tasks = False
    executor = client.as_executor(max_workers=2)
    futures = [executor.submit(abs, -n) for n in range(4)]
    begun, _ = scheduler.wait_for(Task, 2)
    scheduler.begun.add(begun.task_id)
    executor.shutdown(wait=False, cancel_futures=True)
    assert wait(futures[1:], 10).not_done == set()
    assert [future.cancelled() for future in futures] == [False, True, True, True]
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, -1)
    scheduler.run(begun)
    executor.shutdown()
    assert futures[0].result(0) == 0


def test_a_future_that_its_client_cancels_is_cancelled(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    executor = client.as_executor()
    future = executor.submit(abs, -1)
    scheduler.wait_for(Task)
    client.clear()
    with pytest.raises(CancelledError):
        future.result(10)
    assert future.cancelled()
    executor.shutdown()


def test_without_a_scheduler_a_sent_task_cannot_be_cancelled(new_client: Callable[..., Client]) -> None:
    with FakeScheduler(answers_tasks=False) as scheduler:
        client = new_client(scheduler.address, timeout_seconds=30)
        executor = client.as_executor()
        future = executor.submit(abs, -1)
        scheduler.wait_for(Task)
    assert not future.cancel()
    client.disconnect()
    assert not wait([future], 10).not_done, "its cancel comes by a callback, in another thread"
    assert future.cancelled()


def test_other_libraries_can_read_how_many_tasks_run_at_once(client: Client) -> None:
    """Dask, for one, asks every executor for `_max_workers`."""
    assert client.as_executor(7)._max_workers == 7
    assert client.as_executor()._max_workers == 2, "as many as there are workers"


def test_the_next_task_is_submitted_when_one_has_ended(client: Client) -> None:
    executor = client.as_executor(max_workers=1)
    futures = [executor.submit(abs, -n) for n in range(20)]
    assert not wait(futures, 10).not_done
    assert [future.result() for future in futures] == list(range(20))


def test_a_callback_may_submit(client: Client) -> None:
    executor = client.as_executor(max_workers=1)
    second: list[Future[int]] = []
    is_done = threading.Event()

    def go_on(first: Future[int]) -> None:
        second.append(executor.submit(abs, -first.result() - 1))
        is_done.set()

    executor.submit(abs, -1).add_done_callback(go_on)
    assert is_done.wait(10)
    assert second[0].result(10) == 2


def test_a_call_that_cannot_be_sent_fails_and_frees_its_slot(client: Client) -> None:
    executor = client.as_executor(max_workers=1)
    with pytest.raises(SerializeObjectError):
        executor.submit(print, threading.Lock()).result(10)
    with pytest.raises(TypeError):
        executor.submit(abs).result(10)
    assert executor.submit(abs, -1).result(10) == 1


def test_an_executor_returns_large_results(client: Client) -> None:
    assert client.as_executor().submit(bytes, 300_000).result(10) == bytes(300_000)


@pytest.mark.parametrize("max_workers", [0, -1, 2.5, "4"])
def test_an_executor_without_a_worker_is_refused(client: Client, max_workers: Any) -> None:
    with pytest.raises(ValueError, match=r"max_workers must be (greater than 0|a number|a whole number)"):
        client.as_executor(max_workers)


def python_calls_of(act: Callable[[], object]) -> int:
    """Return the number of Python functions that this thread calls in the second call of `act`."""
    calls: list[str] = []
    act()
    sys.setprofile(lambda _frame, event, _argument: calls.append(event))
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls.count("call")


def test_submit_of_an_executor_makes_few_calls_more_than_that_of_a_client(client: Client) -> None:
    executor = client.as_executor()
    kept: list[object] = []
    of_executor, of_client = (
        min(python_calls_of(lambda: kept.append(submit(abs, -1))) for _ in range(5))  # noqa: B023 - called at once
        for submit in (executor.submit, client.submit)
    )
    assert of_executor - of_client <= 12, "with the condition of the standard library they are 16"
    executor.shutdown()


def test_an_executor_of_a_client_with_a_seed_is_refused(client: Client) -> None:
    with pytest.raises(ConfigError, match="all tasks of an executor, or of joblib, would draw the same numbers"):
        client.options(seed=7).as_executor()
