from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import signal
import threading
import weakref
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, as_completed, wait
from typing import Any

import pytest

from scaler.client import Client, ScalerFuture
from scaler.client.future import LeanCondition
from scaler.errors import DisconnectedError, MissingObjects
from scaler.ids import ObjectId
from scaler.wire.messages.client import ExplainRequest, Task, TaskCancel, TaskResult
from scaler.wire.messages.common import PROFILE, InstructionKind, ObjectInstruction, ObjectRequest, TaskStatus
from tests.support.faces import AnyClient, ended, exception_of, with_client
from tests.support.fake_scheduler import FakeScheduler
from tests.support.processes import wait_until

LARGE = 100_000


def is_delete(instruction: ObjectInstruction) -> bool:
    return instruction.kind == InstructionKind.DELETE


def boom() -> None:
    raise ValueError("boom <at>")


def test_a_future_runs_from_submit_to_end(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    assert isinstance(future, ScalerFuture)
    assert len(future.task_id) == 16
    assert future.running()
    assert not future.done()
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.01)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.exception(0.01)
    scheduler.run(*scheduler.wait_for(Task))
    assert future.result(10) == 1
    assert future.exception() is None
    assert future.done()
    assert not future.running()
    assert not future.cancel()


def test_a_thread_that_waits_for_a_result_reports_that_from_time_to_time(
    client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.client.future.WANTED_SECONDS", 0.01)
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    tasks = scheduler.wait_for(Task)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.1)
    requests = scheduler.wait_for(ExplainRequest, 2)
    assert {(each.task_id, each.wanted) for each in requests} == {(future.task_id, 1)}
    scheduler.run(*tasks)
    assert future.result(10) == 1


def test_a_result_that_arrives_while_its_future_becomes_an_argument_is_not_taken_for_a_cancel(
    client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    tasks = scheduler.wait_for(Task)
    done = ScalerFuture.done

    def done_once_it_has_arrived(self: ScalerFuture[int]) -> bool:
        if not done(self):
            scheduler.run(*tasks)
            wait_until(lambda: done(self), "the result")
        return done(self)

    monkeypatch.setattr(ScalerFuture, "done", done_once_it_has_arrived)
    known, value = future.as_argument(client._core.link)
    assert value is None
    assert known is not None
    assert (known.result is not None, known.make_error) == (True, None)


def stop() -> None:
    raise StopIteration(7)


@with_client
async def test_a_task_that_raises_stop_iteration_is_an_error_of_the_coroutine_that_awaits_it(client: AnyClient) -> None:
    ended_before = client.submit(stop)
    await ended(ended_before)
    for future in (ended_before, client.submit(stop), asyncio.gather(client.submit(stop))):
        with pytest.raises(RuntimeError, match="task stop raised StopIteration") as caught:
            await future
        assert isinstance(caught.value.__cause__, StopIteration)
    (error,) = await asyncio.gather(client.submit(stop), return_exceptions=True)
    assert isinstance(error, RuntimeError)


@with_client
async def test_a_future_can_be_awaited_repeatedly_and_gathered(client: AnyClient) -> None:
    future = client.submit(divmod, 7, 2)
    assert await future == (3, 1)
    assert await future == future.result() == (3, 1)
    assert await asyncio.gather(future, client.submit(abs, -1)) == [(3, 1), 1]
    [error] = await asyncio.gather(client.submit(int, "x"), return_exceptions=True)
    assert isinstance(error, ValueError)


@with_client
async def test_an_exception_keeps_its_type_and_shows_where_it_was_raised(client: AnyClient) -> None:
    future = client.submit(divmod, 1, 0)
    with pytest.raises(ZeroDivisionError) as caught:
        await future
    assert "task divmod" in str(caught.value.__cause__)
    assert isinstance(future.exception(), ZeroDivisionError)


@with_client
async def test_futures_are_arguments_alone_and_inside_of_small_and_large_values(
    client: AnyClient, scheduler: FakeScheduler
) -> None:
    numbers = [client.submit(abs, -n) for n in range(4)]
    many: list[Any] = [*range(1 << 12), numbers[3]]
    total = client.submit(sum, many)
    assert await client.submit(pow, numbers[3], numbers[2]) == 9
    assert await client.submit(sum, numbers) == 6
    assert await total == sum(range(1 << 12)) + 3
    inputs = [len(task.inputs) // 16 for task in scheduler.of(Task) if task.inputs]
    assert sorted(inputs) == [1, 2, 4]


class TestProfilingInfo:
    @staticmethod
    async def future(
        client: AnyClient, scheduler: FakeScheduler, *, profile: bytes, status: int = 0, size: int = 0
    ) -> Any:
        scheduler.answers_tasks = False
        future = client.submit(abs, -1)
        (task,) = scheduler.wait_for(Task)
        if size:
            scheduler.objects[ObjectId(task.task_id)] = (b"K\x01.",)
        scheduler.say(TaskResult(task.task_id, status, b"" if size else b"K\x01.", size, profile))
        await ended(future)
        return future

    @pytest.mark.parametrize(
        ("status", "size"), [(TaskStatus.SUCCESS, 0), (TaskStatus.SUCCESS, LARGE), (TaskStatus.FAILED, 0)]
    )
    @with_client
    async def test_profiling_info_has_the_time_and_memory_of_the_task(
        self, client: AnyClient, scheduler: FakeScheduler, status: int, size: int
    ) -> None:
        future = await self.future(
            client, scheduler, profile=PROFILE.pack(1_500_000, 250_000, 4096), status=status, size=size
        )
        info = future.profiling_info()
        assert (info.duration_us, info.duration_s) == (1_500_000, 1.5)
        assert (info.cpu_time_us, info.cpu_time_s) == (250_000, 0.25)
        assert (info.peak_memory, info.memory_peak) == (4096, 4096)
        if status == TaskStatus.SUCCESS and not size:
            assert await future == 1
            assert future.profiling_info() == info

    @with_client
    async def test_profiling_info_of_a_task_without_profiling_is_a_value_error(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        with pytest.raises(ValueError, match="task abs was not measured: turn measuring on with"):
            (await self.future(client, scheduler, profile=b"")).profiling_info()

    @with_client
    async def test_profiling_info_of_an_open_or_cancelled_task_is_a_value_error(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_tasks = False
        future = client.submit(abs, -1, profiling=True)
        with pytest.raises(ValueError, match="task abs has not ended"):
            future.profiling_info()
        future.cancel()
        with pytest.raises(ValueError, match="was not measured"):
            future.profiling_info()


@with_client
async def test_a_result_is_deserialised_once(client: AnyClient) -> None:
    future = client.submit(list, (1, 2))
    assert await future is await future


def test_cancel_wakes_all_waiters_and_is_sent_to_the_scheduler(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    futures = [client.submit(abs, n) for n in range(3)]
    scheduler.wait_for(Task, 3)
    assert all(future.cancel() for future in futures)
    assert all(future.cancel() for future in futures)
    assert all(future.cancelled() and future.done() for future in futures)
    assert wait(futures, timeout=10).done == set(futures)
    assert set(as_completed(futures, timeout=10)) == set(futures)
    with pytest.raises(CancelledError):
        futures[0].result()
    cancelled = {cancel.task_id for cancel in scheduler.wait_for(TaskCancel, 3)}
    assert cancelled == {future.task_id for future in futures}


def test_a_waiting_thread_is_woken_by_cancel(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, 1)
    waits = [
        threading.Thread(target=lambda: wait([future])),
        threading.Thread(target=lambda: list(as_completed([future]))),
    ]
    for thread in waits:
        thread.start()
    future.cancel()
    for thread in waits:
        thread.join(10)
        assert not thread.is_alive()


@with_client
async def test_a_late_result_of_a_cancelled_task_is_ignored(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(bytes, LARGE)
    (task,) = scheduler.wait_for(Task)
    future.cancel()
    scheduler.wait_for(TaskCancel)
    scheduler.run(task)
    scheduler.wait_for(ObjectInstruction, 1, is_delete)  # no future can read it
    assert future.cancelled()


def test_wait_returns_at_the_first_exception(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    futures = [client.submit(abs, 1), client.submit(boom)]
    scheduler.run(scheduler.wait_for(Task, 2)[1])
    assert wait(futures, timeout=10, return_when=FIRST_EXCEPTION).done == {futures[1]}


def test_callbacks_run_outside_the_thread_of_the_link(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -7)
    tasks = scheduler.wait_for(Task)
    seen: list[object] = []
    is_called = threading.Event()

    def callback(done: concurrent.futures.Future[int]) -> None:
        # Waiting for another task here would be a deadlock in the link's thread.
        seen.extend([done, client.submit(abs, -8).result(10), threading.current_thread().name])
        is_called.set()

    future.add_done_callback(lambda done: 1 / 0)
    future.add_done_callback(callback)
    scheduler.answers_tasks = True
    scheduler.run(*tasks)
    assert is_called.wait(10)
    assert seen == [future, 8, "scaler-callbacks"]
    future.add_done_callback(lambda done: seen.append("at once"))
    assert seen[-1] == "at once"


def test_a_callback_runs_after_a_large_result_has_arrived(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(bytes, LARGE)
    sizes: list[int] = []
    is_called = threading.Event()
    future.add_done_callback(lambda done: (sizes.append(len(done.result(0))), is_called.set()))
    scheduler.run(*scheduler.wait_for(Task))
    assert is_called.wait(10)
    assert sizes == [LARGE]


class TestLargeResults:
    def test_a_large_result_is_fetched_once_when_it_is_read(self, client: Client, scheduler: FakeScheduler) -> None:
        future = client.submit(bytes, LARGE)
        wait([future], timeout=10)
        assert future.exception() is None
        assert not scheduler.of(ObjectRequest)
        value = future.result(10)
        assert value == bytes(LARGE)
        assert future.result() is value
        scheduler.wait_for(ObjectInstruction, 1, is_delete)
        assert len(scheduler.of(ObjectRequest)) == 1

    def test_a_fetch_can_time_out_and_the_next_read_gets_the_large_result(
        self, client: Client, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_requests = False
        future = client.submit(bytes, LARGE)
        wait([future], timeout=10)
        with pytest.raises(concurrent.futures.TimeoutError, match=r"result of task bytes .* has not arrived in time"):
            future.result(0.02)
        scheduler.wait_for(ObjectRequest)
        scheduler.say(scheduler.stored(future.task_id))
        assert len(future.result(10)) == LARGE
        assert len(scheduler.of(ObjectRequest)) == 1

    def test_a_large_result_without_a_future_is_deleted(self, client: Client, scheduler: FakeScheduler) -> None:
        future = client.submit(bytes, LARGE)
        wait([future], timeout=10)
        del future
        gc.collect()
        scheduler.wait_for(ObjectInstruction, 1, is_delete)

    def test_a_future_is_collected_after_its_large_result_could_not_be_fetched(
        self, client: Client, scheduler: FakeScheduler
    ) -> None:
        gc.disable()  # an error must not keep its future alive until a collection
        try:
            future = client.submit(bytes, LARGE)
            wait([future], timeout=10)
            scheduler.objects.clear()
            with pytest.raises(MissingObjects):
                future.result(10)
            is_gone = threading.Event()
            weakref.finalize(future, is_gone.set)
            del future
            assert is_gone.wait(10)
        finally:
            gc.enable()

    @with_client
    async def test_a_lost_large_result_is_a_missing_objects_error(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_tasks = False
        future = client.submit(abs, -1)
        [task] = scheduler.wait_for(Task)
        scheduler.say(TaskResult(task.task_id, TaskStatus.SUCCESS, b"", LARGE))
        with pytest.raises(MissingObjects, match="no longer stored"):
            await future

    def test_after_disconnect_a_large_result_cannot_be_read(self, client: Client) -> None:
        future = client.submit(bytes, LARGE)
        wait([future], timeout=10)
        client.disconnect()
        with pytest.raises(DisconnectedError):
            future.result(10)

    def test_disconnect_ends_a_pending_request_for_a_large_result(
        self, client: Client, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_requests = False
        future = client.submit(bytes, LARGE)
        wait([future], timeout=10)
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                future.result()
            except DisconnectedError as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        scheduler.wait_for(ObjectRequest)
        client.disconnect()
        thread.join(10)
        assert len(errors) == 1


class TestAsyncio:
    def test_futures_can_be_awaited(self, client: Client) -> None:
        async def main() -> tuple[int, int, int]:
            large = client.submit(bytes, LARGE)
            wait([large], timeout=10)
            return await client.submit(abs, -1), len(await client.submit(bytes, LARGE)), len(await large)

        assert asyncio.run(main()) == (1, LARGE, LARGE)

    def test_cancelling_the_waiter_cancels_the_task(self, client: Client, scheduler: FakeScheduler) -> None:
        scheduler.answers_tasks = False
        future = client.submit(abs, 1)

        async def main() -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(future), 0.01)

        asyncio.run(main())
        assert future.cancelled()


@with_client
async def test_results_of_ended_and_unknown_tasks_are_ignored(client: AnyClient, scheduler: FakeScheduler) -> None:
    future = client.submit(abs, -1)
    assert await future == 1
    scheduler.say(TaskResult(future.task_id, 1, b"", 0), TaskResult(b"?" * 16, 0, b"", 0))
    assert await client.submit(abs, -2) == 2
    assert await future == 1


@with_client
async def test_a_future_shows_its_name_and_its_state(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    good, bad, cancelled = (client.submit(function, -1) for function in (abs, boom_with, abs))
    last = good.task_id.hex()[-8:]
    kind = type(good).__name__
    assert repr(good) == f"<{kind} abs {last}: open>"
    tasks = scheduler.wait_for(Task, 3)
    cancelled.cancel()
    scheduler.run(tasks[0])
    scheduler.run(tasks[1])
    assert (await good, type(await exception_of(bad))) == (1, ValueError)
    states = [repr(future).partition(": ")[2] for future in (good, bad, cancelled)]
    assert states == ["finished>", "failed: ValueError: boom <at>>", "cancelled>"]
    assert good._repr_html_() == f"<div><strong>{kind}</strong> <code>abs</code> <code>{last}</code>: finished</div>"
    assert bad._repr_html_().endswith(": failed: ValueError: boom &lt;at&gt;</div>")


@with_client
async def test_repr_shows_an_unread_error_and_does_not_read_it(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(boom_with, -1)
    [task] = scheduler.wait_for(Task)
    scheduler.run(task)
    await ended(future)
    assert repr(future).endswith(": failed: ValueError: boom <at>>")
    assert getattr(future, "_task", future)._outcome is None
    lost = client.submit(abs, -1, name="count")
    scheduler.say(TaskResult(lost.task_id, TaskStatus.PROCESSOR_DIED, b"signal SIGKILL", 0))
    await ended(lost)
    assert repr(lost).endswith(": failed: ProcessorDiedError: task count: signal SIGKILL>")


@pytest.mark.parametrize(
    ("status", "payload", "text"),
    [
        (TaskStatus.PROCESSOR_DIED, b"signal SIGKILL", "task count: signal SIGKILL"),
        (TaskStatus.NO_WORKER, b"", "task count: no worker"),
        (TaskStatus.MISSING_OBJECTS, b"it is gone", "task count: it is gone"),
    ],
)
@with_client
async def test_an_error_of_the_system_names_the_task(
    client: AnyClient, scheduler: FakeScheduler, status: TaskStatus, payload: bytes, text: str
) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1, name="count")
    [task] = scheduler.wait_for(Task)
    scheduler.say(TaskResult(task.task_id, status, payload, 0))
    assert str(await exception_of(future)) == text


@with_client
async def test_a_task_that_an_admin_has_cancelled_is_cancelled(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    [task] = scheduler.wait_for(Task)
    scheduler.say(TaskResult(task.task_id, TaskStatus.CANCELED, b"", 0))
    with pytest.raises(asyncio.CancelledError):
        await future
    assert future.cancelled()


def boom_with(_number: int) -> None:
    raise ValueError("boom <at>")


def test_threads_that_wait_for_a_lean_condition_are_woken() -> None:
    condition, woken = LeanCondition(), []

    def wait() -> None:
        with condition:
            woken.append(condition.wait())

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(condition._waiters or ()) == 2, "both wait")
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join()
    assert woken == [True, True]


def test_a_wait_for_a_lean_condition_can_time_out() -> None:
    condition = LeanCondition()
    with condition:
        assert not condition.wait(0.001)
        assert not condition.wait(0)
        assert not condition.wait(-1)
        assert not condition._waiters
        condition.notify_all()


def test_only_the_owner_of_a_lean_condition_can_release_its_lock() -> None:
    condition = LeanCondition()
    with condition, condition:  # the lock is reentrant
        others = []
        thread = threading.Thread(target=lambda: others.append(condition.acquire(blocking=False)))
        thread.start()
        thread.join()
        assert others == [False]
    assert condition.acquire()
    condition.release()
    with pytest.raises(RuntimeError):
        condition.release()


def test_a_wait_releases_a_lock_that_is_held_twice_and_takes_it_back() -> None:
    condition = LeanCondition()

    def wake() -> None:
        with condition:
            condition.notify_all()

    with condition, condition:
        thread = threading.Thread(target=wake)
        thread.start()
        assert condition.wait(10)
        assert not condition.wait(0)
        thread.join()
        others = []
        thread = threading.Thread(target=lambda: others.append(condition.acquire(blocking=False)))
        thread.start()
        thread.join()
        assert others == [False]


def test_an_interrupted_wait_takes_the_lock_back_and_leaves_no_waiter() -> None:
    condition = LeanCondition()

    def interrupt() -> None:
        wait_until(lambda: len(condition._waiters or ()) == 1, "the main thread waits")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with condition:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            condition.wait(10)
        assert not condition._waiters
        condition.notify_all()
    thread.join()
    with pytest.raises(RuntimeError):
        condition.release()


def test_a_wait_without_the_lock_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="un-acquired"):
        LeanCondition().wait()


def test_a_lean_condition_has_far_fewer_objects_than_a_future_of_the_standard_library() -> None:
    def objects(make: type) -> float:
        gc.collect()
        before = len(gc.get_objects())
        made = [make() for _ in range(1000)]
        return (len(gc.get_objects()) - before) / len(made)

    assert objects(LeanCondition) < 2.5
    assert objects(Future) > 3 * objects(LeanCondition)
