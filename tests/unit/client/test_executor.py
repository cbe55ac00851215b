from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Executor, Future, wait

import pytest

from scaler import Client, SerializeObjectError
from scaler.wire.messages.client import Task
from tests.support.fake_scheduler import FakeScheduler


def keywords(**given: object) -> dict[str, object]:
    return given


def test_it_is_an_executor_of_the_standard_library_with_the_options_of_its_client(
    client: Client, scheduler: FakeScheduler
) -> None:
    with client.options(name="load").as_executor() as executor:
        assert isinstance(executor, Executor)
        future = executor.submit(abs, -1)
        assert type(future) is Future
        assert future.result(10) == 1
        assert executor.submit(keywords, name=1, profiling=2, self=3, fn=4).result(10) == {
            "name": 1, "profiling": 2, "self": 3, "fn": 4,
        }  # fmt: skip
    assert {task.name for task in scheduler.of(Task)} == {"load"}
    assert client.submit(abs, -2).result(10) == 2  # the client stays connected


def test_map_is_that_of_the_standard_library(client: Client, scheduler: FakeScheduler) -> None:
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


def test_what_waits_is_pending_and_can_be_cancelled_and_what_was_handed_over_is_running(
    client: Client, scheduler: FakeScheduler
) -> None:
    scheduler.answers_tasks = False
    executor = client.as_executor(max_workers=2)
    futures = [executor.submit(abs, -n) for n in range(4)]
    scheduler.wait_for(Task, 2)
    assert [future.running() for future in futures] == [True, True, False, False]
    assert "2 handed over, 2 waiting" in repr(executor)
    assert [future.cancel() for future in futures] == [False, False, True, True]
    late = [executor.submit(abs, -9) for _ in range(2)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in late)
    assert wait(late, 10).done == set(late), "who waits for them hears of it"
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, -1)
    client.clear()
    for future in futures[:2]:
        with pytest.raises(CancelledError):
            future.result(10)
    executor.shutdown()
    assert len(scheduler.of(Task)) == 2


def test_the_next_one_is_handed_over_when_one_has_ended(client: Client) -> None:
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


def test_a_call_that_cannot_be_made_fails_and_frees_its_place(client: Client) -> None:
    executor = client.as_executor(max_workers=1)
    with pytest.raises(SerializeObjectError):
        executor.submit(print, threading.Lock()).result(10)
    with pytest.raises(TypeError):
        executor.submit(abs).result(10)
    assert executor.submit(abs, -1).result(10) == 1


def test_large_results_arrive(client: Client) -> None:
    assert client.as_executor().submit(bytes, 300_000).result(10) == bytes(300_000)


@pytest.mark.parametrize("max_workers", [0, -1])
def test_there_must_be_room_for_one(client: Client, max_workers: int) -> None:
    with pytest.raises(ValueError, match="max_workers must be greater than 0"):
        client.as_executor(max_workers)
