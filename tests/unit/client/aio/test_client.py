from __future__ import annotations

import asyncio
import gc
import pickle
import threading
from typing import Any

import pytest

from scaler import (
    AsyncClient,
    ClientShutdownException,
    ConfigError,
    DefaultSerializer,
    DisconnectedError,
    MissingObjects,
    SerializeObjectError,
)
from scaler.client.aio.future import ValueOnItsWayError
from scaler.ids import ObjectId
from scaler.wire.messages.client import ClientDisconnect, InputResult, Task
from scaler.wire.messages.common import ObjectInstruction, ObjectRequest, TaskStatus
from tests.support.fake_scheduler import FakeScheduler
from tests.unit.client.aio.conftest import Use

LARGE = b"x" * 2_000_000


class NotesThreads(DefaultSerializer):
    threads: list[int] = []  # noqa: RUF012

    def serialize(self, obj: Any) -> bytes:
        if isinstance(obj, bytes):
            NotesThreads.threads.append(threading.get_ident())
        return bytes(super().serialize(obj))

    def __reduce__(self) -> Any:
        return DefaultSerializer, ()


def test_large_values_are_serialised_in_another_thread(scheduler: FakeScheduler) -> None:
    async def test() -> None:
        here = threading.get_ident()
        async with AsyncClient(scheduler.address, serializer=NotesThreads()) as client:
            for value, is_here in ((b"x", True), (LARGE, False)):
                NotesThreads.threads.clear()
                assert await client.submit(len, value) == len(value)
                assert [thread == here for thread in NotesThreads.threads] == [is_here]
                reference = await client.send_object(value)
                assert [thread == here for thread in NotesThreads.threads] == [is_here] * 2
                assert await client.submit(len, reference) == len(value)
                assert await client.get({"v": value, "n": (len, "v")}, ["n"]) == {"n": len(value)}

    asyncio.run(test())


def test_bad_arguments_are_refused_at_once(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(TypeError):
            client.submit(abs)
        with pytest.raises(TypeError):
            client.submit(abs, LARGE, LARGE)
        with pytest.raises(SerializeObjectError):
            client.submit(abs, threading.Lock())
        with pytest.raises(SerializeObjectError):
            await client.submit(max, LARGE, threading.Lock())

    use(test)


def test_a_large_call_that_is_cancelled_while_it_is_serialised_is_not_sent(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        assert client.submit(len, LARGE).cancel()
        assert await client.submit(len, LARGE) == len(LARGE)
        assert len(scheduler.of(Task)) == 1

    use(test)


def test_futures_are_arguments_alone_and_inside_of_small_and_large_values(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        numbers = [client.submit(abs, -n) for n in range(4)]
        many: list[Any] = [*range(1 << 18), numbers[3]]
        total = client.submit(sum, many)
        assert await client.submit(pow, numbers[3], numbers[2]) == 9
        assert await client.submit(sum, numbers) == 6
        assert await total == sum(range(1 << 18)) + 3
        assert await client.map(pow, [(each, 2) for each in numbers]) == [0, 1, 4, 9]
        inputs = [len(task.inputs) // 16 for task in scheduler.of(Task) if task.inputs]
        assert sorted(inputs) == [1, 1, 1, 1, 1, 2, 4]

    use(test)


def test_a_large_value_on_its_way_is_awaited_and_passed_on(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        first = client.submit(bytes, len(LARGE))
        while not first.is_being_fetched:
            assert not first.done()
            await asyncio.sleep(0)
        assert await client.submit(len, first) == len(LARGE)
        assert scheduler.of(Task)[-1].inputs == b""

    use(test)


class Unserialisable:
    """A value whose serialisation fails after an event."""

    def __init__(self) -> None:
        self.may_fail = threading.Event()

    def __reduce__(self) -> Any:
        self.may_fail.wait(30)
        raise TypeError("it cannot be serialised")


@pytest.mark.parametrize("end", ["fails", "is cancelled"])
def test_an_argument_that_ends_before_its_task_is_sent_ends_the_tasks_that_need_it(
    use: Use, scheduler: FakeScheduler, end: str
) -> None:
    async def test(client: AsyncClient) -> None:
        value = Unserialisable()
        first = client.submit(max, LARGE, value)
        second = client.submit(abs, first)
        await asyncio.to_thread(scheduler.wait_for, Task)
        scheduler.say(ObjectRequest(ObjectId(first.task_id), 1))
        assert await client.submit(abs, -1) == 1  # the client has received the request, and answers nothing
        assert scheduler.of(InputResult) == []
        if end == "is cancelled":
            first.cancel()
        value.may_fail.set()
        with pytest.raises(SerializeObjectError if end == "fails" else asyncio.CancelledError):
            await first
        with pytest.raises(MissingObjects if end == "fails" else asyncio.CancelledError):
            await second
        (answer,) = scheduler.of(InputResult)
        assert answer.status == (TaskStatus.MISSING_OBJECTS if end == "fails" else TaskStatus.CANCELED)

    use(test)


def test_a_future_is_taken_as_an_argument_in_the_thread_of_its_loop(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        future = client.submit(abs, -1)
        with pytest.raises(ValueOnItsWayError):
            await asyncio.to_thread(future.as_argument, future._link)
        assert await client.submit(abs, future) == 1

    use(test)


def test_an_async_client_runs_graphs(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        graph = {"a": 2, "b": (pow, "a", 3), "c": (max, "a", "b")}
        assert await client.get(graph, ["c", "a"]) == {"c": 8, "a": 2}
        many = {f"k{n}": (abs, -n) for n in range(200)}
        assert (await client.get(many, ["k199"])) == {"k199": 199}
        with pytest.raises(KeyError):
            await client.get(graph, ["x"])
        with pytest.raises(ZeroDivisionError):
            await client.get({"a": (divmod, 1, 0), "b": (abs, -1)}, ["b", "a"])

    use(test)


def test_options_of_an_async_client_are_those_of_a_client(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        eager = client.options(name="eager", priority=3)
        future = eager.submit(abs, -1)
        assert (await future, future.name) == (1, "eager")
        assert await eager.options(priority=4).map(abs, [(-2,)]) == [2]
        tasks = scheduler.of(Task)
        assert [task.name for task in tasks] == ["eager", "eager"]
        assert tasks[0].priority < tasks[1].priority
        assert "eager" in repr(eager)
        with pytest.raises(TypeError, match="nice"):
            client.options(nice=1)

    use(test)


def test_objects_are_released_with_their_references(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        reference = await client.send_object([1, 2], name="numbers")
        assert (reference.name, await client.submit(sum, reference)) == ("numbers", 3)
        instructions = len(scheduler.of(ObjectInstruction))
        del reference
        gc.collect()
        await asyncio.to_thread(scheduler.wait_for, ObjectInstruction, instructions + 1)
        kept = await client.send_object([3])
        await client.clear()
        with pytest.raises(MissingObjects):
            client.submit(sum, kept)
        with pytest.raises(TypeError, match="must be a str"):
            await client.send_object(1, name=2)  # type: ignore[arg-type]

    use(test)


def test_clear_of_an_async_client_cancels_open_tasks(use: Use, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test(client: AsyncClient) -> None:
        future = client.submit(abs, -1)
        await client.clear()
        assert future.cancelled()
        scheduler.answers_tasks = True
        assert await client.submit(abs, -1) == 1

    use(test)


def test_an_async_client_sends_one_goodbye(scheduler: FakeScheduler) -> None:
    async def test() -> None:
        client = AsyncClient(scheduler.address)
        await client.disconnect()
        assert await client.submit(abs, -1) == 1
        await client.disconnect()
        await client.disconnect()
        with pytest.raises(DisconnectedError):
            client.submit(abs, -1)
        await asyncio.to_thread(scheduler.wait_for, ClientDisconnect)
        assert len(scheduler.of(ClientDisconnect)) == 1

    asyncio.run(test())


def test_a_garbage_collected_async_client_sends_a_goodbye(scheduler: FakeScheduler) -> None:
    async def test() -> None:
        client = AsyncClient(scheduler.address)
        assert await client.submit(abs, -1) == 1
        del client
        gc.collect()
        await asyncio.to_thread(scheduler.wait_for, ClientDisconnect)

    asyncio.run(test())


def test_shutdown_of_an_async_client_returns_the_answer_of_the_scheduler(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        scheduler.refuses_shutdown_because = "it is protected"
        with pytest.raises(ClientShutdownException, match="it is protected"):
            await client.shutdown()
        assert await client.submit(abs, -1) == 1
        scheduler.refuses_shutdown_because = ""
        await client.shutdown()
        with pytest.raises(DisconnectedError):
            await client.clear()

    use(test)


def test_an_async_client_cannot_be_passed_to_a_task(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(TypeError, match="belongs to its event loop"):
            pickle.dumps(client)
        assert client.identity.hex()[:8] in repr(client)

    use(test)


@pytest.mark.parametrize(
    ("arguments", "said"), [({"address": "nowhere"}, "address"), ({"serializer": object()}, "serializer")]
)
def test_bad_settings_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        AsyncClient(**arguments)


def test_an_async_client_without_an_address_has_to_connect_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)

    async def test() -> None:
        with pytest.raises(DisconnectedError, match=r"await client\.connect"):
            AsyncClient().submit(abs, -1)

    asyncio.run(test())
