"""What is special about an `AsyncClient`: its event loop, its beginning and its end."""

from __future__ import annotations

import asyncio
import gc
import operator
import os
import pickle
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from scaler import AsyncClient, Client, DisconnectedError, task_context
from scaler.wire.messages.client import ClientDisconnect, Task, TaskCancel
from tests.support.faces import AnyClient, with_client
from tests.support.fake_scheduler import FakeScheduler
from tests.support.processes import open_descriptors, wait_until


def test_both_clients_check_their_arguments_in_one_place() -> None:
    assert AsyncClient.__init__ is Client.__init__


def test_an_async_client_sends_one_goodbye(scheduler: FakeScheduler) -> None:
    async def test() -> None:
        client = AsyncClient(scheduler.address)
        await client.disconnect()
        assert await client.submit(abs, -1) == 1
        await client.disconnect()
        await client.disconnect()
        with pytest.raises(DisconnectedError):
            client.submit(abs, -1)

    asyncio.run(test())
    scheduler.wait_for(ClientDisconnect)
    assert len(scheduler.of(ClientDisconnect)) == 1


def test_a_garbage_collected_async_client_sends_a_goodbye(scheduler: FakeScheduler) -> None:
    async def test() -> None:
        client = AsyncClient(scheduler.address)
        assert await client.submit(abs, -1) == 1
        del client
        await asyncio.sleep(0)  # the loop drops the future of this turn
        gc.collect()
        scheduler.wait_for(ClientDisconnect)

    asyncio.run(test())


def test_an_open_future_keeps_its_client(scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test() -> None:
        future = AsyncClient(scheduler.address).submit(abs, -1)
        gc.collect()
        scheduler.run(*scheduler.wait_for(Task))
        assert await future == 1
        assert scheduler.of(ClientDisconnect) == []
        del future
        await asyncio.sleep(0)
        gc.collect()
        scheduler.wait_for(ClientDisconnect)

    asyncio.run(test())


@with_client
async def test_an_async_client_cannot_be_passed_to_a_task(client: AnyClient) -> None:
    with pytest.raises(TypeError, match="belongs to its event loop"):
        pickle.dumps(client)
    assert client.identity.hex()[:8] in repr(client)


def test_an_async_client_without_an_address_has_to_connect_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)

    async def test() -> None:
        with pytest.raises(DisconnectedError, match=r"await client\.connect"):
            AsyncClient().submit(abs, -1)

    asyncio.run(test())


async def unordered(client: AsyncClient) -> None:
    async for _ in client.map_unordered(abs, [(1,)]):
        """Never runs."""


async def submit(client: AsyncClient) -> int:
    return await client.submit(abs, -1)


CALLS: dict[str, Callable[[AsyncClient], Awaitable[Any]]] = {
    "submit": submit,
    "map": lambda client: client.map(abs, [(1,)]),
    "map_unordered": unordered,
    "get": lambda client: client.get({"a": (abs, 1)}, ["a"]),
    "send_object": lambda client: client.send_object(1),
    "info": lambda client: client.info(),
    "clear": lambda client: client.clear(),
    "jobs": lambda client: client.jobs(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_in_another_loop_says_that_a_client_belongs_to_one_loop(
    scheduler: FakeScheduler, call: Callable[[AsyncClient], Awaitable[Any]]
) -> None:
    client = AsyncClient(scheduler.address)

    async def use(call: Callable[[AsyncClient], Awaitable[Any]]) -> None:
        await call(client)

    asyncio.run(use(submit))
    with pytest.raises(RuntimeError, match="belongs to another event loop: make a client in this one"):
        asyncio.run(use(call))
    asyncio.run(client.disconnect())


def test_a_closed_loop_ends_nothing_else(scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)  # it gets what ends a thread
    client = AsyncClient(scheduler.address)
    scheduler.answers_tasks = False

    async def leave() -> list[Any]:
        reading = asyncio.ensure_future(client.map(abs, iter([(1,)])))
        await asyncio.to_thread(scheduler.wait_for, Task)
        futures = [client.submit(abs, -1), client.submit(bytes, 100_000)]
        scheduler.wait_for(Task, 3)
        return [reading, *futures]

    left = asyncio.run(leave())
    for task in scheduler.of(Task)[1:]:
        scheduler.run(task)
    scheduler.answers_tasks = True
    assert client._connection is not None
    assert client._connection.submit(abs, -2).result(10) == 2, "the same thread has taken the results of the others"
    with Client(scheduler.address) as other:
        assert other.submit(abs, -3).result(10) == 3
    asyncio.run(client.disconnect())
    assert [future.cancelled() for future in left] == [True, False, False]
    assert raised == []


def test_a_client_that_disconnects_in_a_task_cancels_its_own_futures_alone(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.answers_tasks = False
    context = task_context.TaskContext()
    context.address = scheduler.address
    monkeypatch.setattr(task_context, "current", context)

    async def test() -> None:
        one, other = AsyncClient(), AsyncClient(scheduler.address)
        assert one.identity == other.identity
        futures = [each.submit(abs, -n) for n, each in enumerate((one, other), 1)]
        assert one._connected()._core is other._connected()._core, "they share the connection of the process"
        tasks = scheduler.wait_for(Task, 2)
        await one.disconnect()
        assert [future.cancelled() for future in futures] == [True, False]
        assert [cancel.task_id for cancel in scheduler.wait_for(TaskCancel)] == [futures[0].task_id]
        scheduler.run(tasks[1])
        assert await futures[1] == 2
        assert scheduler.of(ClientDisconnect) == []
        other._connected()._link.close()

    asyncio.run(test())


@with_client
async def test_an_object_is_sent_as_it_was_when_the_call_began(client: AnyClient) -> None:
    for size in (1, 100_000, 2_000_000):
        value = np.zeros(size)
        sending = asyncio.ensure_future(client.send_object(value))
        await asyncio.sleep(0)
        value[0] = 1
        assert await client.submit(operator.getitem, await sending, 0) == 0


def test_async_clients_leave_no_descriptor_and_no_thread(scheduler: FakeScheduler) -> None:
    async def test() -> None:
        async with AsyncClient(scheduler.address) as client:
            await client.submit(abs, -1)

    asyncio.run(test())
    gc.collect()
    before, threads = open_descriptors(), threading.active_count()
    for _ in range(3):
        asyncio.run(test())
    wait_until(lambda: open_descriptors() <= before, "ZeroMQ has closed its own, too")
    wait_until(lambda: threading.active_count() <= threads, "its threads have ended")


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@with_client
async def test_an_async_client_cannot_be_used_in_a_forked_process(client: AnyClient) -> None:
    assert await client.submit(abs, -1) == 1
    pid = os.fork()
    if not pid:
        try:
            client.submit(abs, -1)
        except DisconnectedError as error:
            os._exit(7 if "forked" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, pid, 0))[1]) == 7
    assert await client.submit(abs, -2) == 2


def test_a_client_that_is_refused_while_it_connects_says_so_in_its_first_call(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.refuses_hellos_because = "it is full"
    made = Client._of

    def refused(setup: Any) -> Client:
        client = made(setup)
        wait_until(lambda: client._link.closed_because != "", "it is refused")
        return client

    async def test() -> None:
        async with AsyncClient(scheduler.address) as client:
            with pytest.raises(DisconnectedError, match="it is full"):
                client.submit(abs, -1)

    monkeypatch.setattr(Client, "_of", refused)
    asyncio.run(test())
