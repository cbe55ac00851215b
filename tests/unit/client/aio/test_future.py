from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from scaler import AsyncClient, DisconnectedError, MissingObjects, ScalerError
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, Task, TaskCancel, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import NO_WORKER
from tests.support.fake_scheduler import FakeScheduler
from tests.unit.client.aio.conftest import Use

LARGE = 3_000_000


class OnlyHere:
    """A value that records the threads that unpickle it."""

    threads: list[int] = []  # noqa: RUF012 - the same for all, as threads are

    def __init__(self, padding: bytes = b"") -> None:
        self.padding = padding

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        OnlyHere.threads.append(threading.get_ident())


def stop() -> None:
    raise StopIteration(7)


def test_an_async_future_can_be_awaited_repeatedly(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        future = client.submit(divmod, 7, 2)
        assert await future == (3, 1)
        assert await future == future.result() == (3, 1)
        assert future.exception() is None
        assert await asyncio.gather(future, client.submit(abs, -1)) == [(3, 1), 1]
        assert "divmod" in repr(future)
        assert repr(future).endswith(": finished>")

    use(test)


def test_exceptions_of_async_futures_keep_their_type_and_show_where_they_were_raised(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        future = client.submit(divmod, 1, 0)
        with pytest.raises(ZeroDivisionError) as caught:
            await future
        assert "divmod" in str(caught.value.__cause__)
        assert repr(future).endswith(": failed: ZeroDivisionError: integer division or modulo by zero>")
        assert future._repr_html_().startswith("<div><strong>AsyncFuture</strong> <code>divmod</code> <code>")
        assert isinstance(future.exception(), ZeroDivisionError)
        [error] = await asyncio.gather(client.submit(int, "x"), return_exceptions=True)
        assert isinstance(error, ValueError)
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            await client.submit(stop)

    use(test)


def test_result_before_the_end_is_an_invalid_state(use: Use, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test(client: AsyncClient) -> None:
        future = client.submit(abs, -1)
        with pytest.raises(asyncio.InvalidStateError):
            future.result()
        with pytest.raises(ValueError, match="no measurements"):
            future.profiling_info()
        assert "open" in repr(future)

    use(test)


@pytest.mark.parametrize("size", [100, 100_000, LARGE])
def test_values_of_all_sizes_arrive(use: Use, size: int) -> None:
    async def test(client: AsyncClient) -> None:
        OnlyHere.threads.clear()
        value = await client.submit(OnlyHere, b"x" * size)
        assert len(value.padding) == size
        is_here = [thread == threading.get_ident() for thread in OnlyHere.threads]
        assert is_here == [size < LARGE]

    use(test)


def test_an_awaited_async_future_reports_that_from_time_to_time(
    use: Use, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.client.aio.future.WANTED_SECONDS", 0.01)
    scheduler.answers_tasks = False

    async def test(client: AsyncClient) -> None:
        future = client.submit(abs, -1)
        waits = asyncio.gather(*(let_come(future) for _ in range(2)))
        tasks = await asyncio.to_thread(scheduler.wait_for, Task)
        requests = await asyncio.to_thread(scheduler.wait_for, ExplainRequest, 3)
        assert {(each.task_id, each.wanted) for each in requests} == {(future.task_id, 1)}
        scheduler.run(*tasks)
        assert await waits == [1, 1]

    async def let_come(future: Any) -> Any:
        return await future

    use(test)


def test_a_cancel_of_an_async_future_is_sent_to_the_scheduler(use: Use, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test(client: AsyncClient) -> None:
        future = client.submit(abs, -1)
        waits = asyncio.ensure_future(asyncio.wait_for(future, 0.05))
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await waits
        assert future.cancelled()
        assert not future.cancel()
        [cancel] = await asyncio.to_thread(scheduler.wait_for, TaskCancel)
        assert cancel.task_id == future.task_id
        with pytest.raises(asyncio.CancelledError):
            await future

    use(test)


def test_a_result_after_the_cancel_is_ignored(use: Use, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test(client: AsyncClient) -> None:
        future = client.submit(abs, -1)
        [task] = await asyncio.to_thread(scheduler.wait_for, Task)
        future.cancel()
        scheduler.say(TaskResult(task.task_id, TaskStatus.SUCCESS, b"", 0))
        scheduler.answers_tasks = True
        assert await client.submit(abs, -2) == 2
        assert future.cancelled()

    use(test)


@pytest.mark.parametrize(
    ("status", "error"),
    [(TaskStatus.CANCELED, asyncio.CancelledError), (TaskStatus.NO_WORKER, ScalerError)],
)
def test_an_async_future_without_a_value_raises_the_error_of_its_status(
    use: Use, scheduler: FakeScheduler, status: TaskStatus, error: type[BaseException]
) -> None:
    scheduler.answers_tasks = False

    async def test(client: AsyncClient) -> None:
        future = client.submit(abs, -1)
        [task] = await asyncio.to_thread(scheduler.wait_for, Task)
        scheduler.say(TaskResult(task.task_id, status, b"so it is", 0))
        with pytest.raises(error):
            await future

    use(test)


def test_a_large_result_that_is_no_longer_stored_is_a_missing_objects_error(use: Use, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test(client: AsyncClient) -> None:
        future = client.submit(abs, -1)
        [task] = await asyncio.to_thread(scheduler.wait_for, Task)
        scheduler.say(TaskResult(task.task_id, TaskStatus.SUCCESS, b"", 100_000))
        with pytest.raises(MissingObjects, match="no longer stored"):
            await future

    use(test)


def test_open_async_futures_are_cancelled_when_the_client_disconnects(scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test() -> None:
        async with AsyncClient(scheduler.address) as client:
            future = client.submit(abs, -1)
        assert future.cancelled()
        with pytest.raises(DisconnectedError):
            client.submit(abs, -1)

    asyncio.run(test())


def test_an_async_future_explains_what_its_task_waits_for(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
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

    use(test)
