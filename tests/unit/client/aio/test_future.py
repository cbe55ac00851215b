"""What is special about an `AsyncFuture`: it is an `asyncio.Future`, ended in its loop by the client's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from scaler import AsyncClient
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, Task, TaskCancel, TaskResult
from scaler.wire.messages.common import ObjectRequest, TaskStatus
from scaler.wire.messages.vocabulary import NO_WORKER
from tests.support.faces import AnyClient, with_client
from tests.support.fake_scheduler import FakeScheduler

LARGE = 3_000_000
SMALL_VALUE = b"K\x01."
"""the pickle of 1"""


class OnlyHere:
    """A value that records the threads that unpickle it."""

    threads: list[int] = []  # noqa: RUF012 - the same for all, as threads are

    def __init__(self, padding: bytes = b"") -> None:
        self.padding = padding

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        OnlyHere.threads.append(threading.get_ident())


@with_client
async def test_an_async_future_reads_without_waiting(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    for read in (future.result, future.exception):
        with pytest.raises(asyncio.InvalidStateError):
            read()
    scheduler.run(*scheduler.wait_for(Task))
    assert await future == future.result() == 1
    assert future.exception() is None


@pytest.mark.parametrize("size", [100, 100_000, LARGE])
@with_client
async def test_only_large_values_are_unpickled_outside_of_the_loop(client: AnyClient, size: int) -> None:
    OnlyHere.threads.clear()
    value = await client.submit(OnlyHere, b"x" * size)
    assert len(value.padding) == size
    is_here = [thread == threading.get_ident() for thread in OnlyHere.threads]
    assert is_here[-1] == (size < LARGE)


@with_client
async def test_an_awaited_async_future_reports_that_from_time_to_time(
    client: AnyClient, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.client.aio.future.WANTED_SECONDS", 0.01)
    scheduler.answers_tasks = False

    async def let_come(future: Any) -> Any:
        return await future

    future = client.submit(abs, -1)
    waits = asyncio.gather(*(let_come(future) for _ in range(2)))
    tasks = await asyncio.to_thread(scheduler.wait_for, Task)
    requests = await asyncio.to_thread(scheduler.wait_for, ExplainRequest, 3)
    assert {(each.task_id, each.wanted) for each in requests} == {(future.task_id, 1)}
    scheduler.run(*tasks)
    assert await waits == [1, 1]


async def in_time(*futures: Any) -> None:
    await asyncio.gather(*(asyncio.wait_for(future, 0.05) for future in futures))


async def gathered_in_time(*futures: Any) -> None:
    await asyncio.wait_for(asyncio.gather(*futures), 0.05)


@pytest.mark.parametrize("wait", [in_time, gathered_in_time])
@with_client
async def test_a_time_out_of_asyncio_cancels_the_tasks_at_the_scheduler(
    client: AnyClient, scheduler: FakeScheduler, wait: Callable[..., Any]
) -> None:
    scheduler.answers_tasks = False
    futures = [client.submit(abs, -n) for n in range(3)]
    scheduler.wait_for(Task, 3)
    with pytest.raises((asyncio.TimeoutError, TimeoutError)):
        await wait(*futures)
    cancelled = await asyncio.to_thread(scheduler.wait_for, TaskCancel, 3)
    assert {each.task_id for each in cancelled} == {future.task_id for future in futures}
    assert all(future.cancelled() and not future.cancel() for future in futures)
    with pytest.raises(asyncio.CancelledError):
        await futures[0]


def test_an_async_future_in_another_loop_says_what_to_do(scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def awaited(future: Any) -> Any:
        return await future

    async def submit(client: AsyncClient) -> list[Any]:
        ended, open_one = client.submit(abs, -1), client.submit(abs, -2)
        scheduler.run(scheduler.wait_for(Task, 2)[0])
        assert await ended == 1
        return [ended, open_one]

    client = AsyncClient(scheduler.address)
    for future in asyncio.run(submit(client)):
        with pytest.raises(RuntimeError, match="task abs belongs to the event loop of its client: await it in that "):
            asyncio.run(awaited(future))
    asyncio.run(client.disconnect())


@with_client
async def test_a_large_result_on_its_way_is_an_argument_at_once(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_requests = False
    first = client.submit(bytes, 100_000)
    await asyncio.to_thread(scheduler.wait_for, ObjectRequest)
    assert await client.submit(len, first) == 100_000
    assert scheduler.of(Task)[-1].inputs == first.task_id
    assert await client.map(len, [(first,)]) == [100_000]
    assert not first.done()
    scheduler.say(scheduler.stored(first.task_id))
    assert await first == bytes(100_000)
    assert len(scheduler.of(ObjectRequest)) == 1


@pytest.mark.thorough
@with_client
async def test_the_loop_is_woken_once_for_tasks_that_end_together(
    client: AnyClient, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.answers_tasks = False
    futures = [client.submit(abs, 1) for _ in range(10_000)]
    await asyncio.to_thread(scheduler.wait_for, Task, len(futures))
    loop, calls = asyncio.get_running_loop(), 0
    wake = loop.call_soon_threadsafe

    def counted(*args: Any, **context: Any) -> Any:
        nonlocal calls
        calls += 1
        return wake(*args, **context)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    scheduler.say(*(TaskResult(each.task_id, TaskStatus.SUCCESS, SMALL_VALUE, 0) for each in scheduler.of(Task)))
    assert await asyncio.gather(*futures) == [1] * len(futures)
    assert 1 <= calls < len(futures) / 20


@with_client
async def test_an_async_future_explains_what_its_task_waits_for(client: AnyClient, scheduler: FakeScheduler) -> None:
    done = client.submit(abs, -1)
    assert await done == 1
    assert await done.explain() == "it has finished, and its result is available"
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    asked = asyncio.create_task(future.story())
    (request,) = await asyncio.to_thread(scheduler.wait_for, ExplainRequest)
    scheduler.say(ExplainResponse(request.task_id, "inactive", NO_WORKER, "start scaler_cluster ADDRESS"))
    story = await asked
    assert (story.waits_for, story.sentence) == (NO_WORKER, f"start scaler_cluster {scheduler.address}")
    future.cancel()
    assert (await future.story()).state == "canceled"
