from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from scaler import AsyncClient, DisconnectedError
from scaler.client.aio.link import AsyncLink
from scaler.wire.messages.client import ClientHello, Task
from tests.support.fake_scheduler import FakeScheduler
from tests.support.processes import open_descriptors, wait_until
from tests.unit.client.aio.conftest import Use

TURN_SECONDS = 0.005


def test_an_async_client_starts_no_thread(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        before = threading.active_count()
        assert await client.submit(abs, -1) == 1
        assert threading.active_count() <= before

    use(test)


@pytest.mark.thorough
def test_no_turn_takes_long_with_ten_thousand_open_tasks(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[float] = []

    def timed(turn: Callable[[AsyncLink], None]) -> Callable[[AsyncLink], None]:
        def run(link: AsyncLink) -> None:
            start = time.thread_time()
            turn(link)
            turns.append(time.thread_time() - start)

        return run

    monkeypatch.setattr(AsyncLink, "_turn", timed(AsyncLink._turn))

    async def test(client: AsyncClient) -> None:
        assert await client.submit(abs, -1) == 1
        gc.collect()
        gc.disable()  # a collection of the whole program would count for the turn in which it starts
        try:
            futures = [client.submit(abs, n) for n in range(10_000)]
            assert await asyncio.gather(*futures) == list(range(10_000))
        finally:
            gc.enable()
        assert len(turns) > 10_000 / 128
        # On a busy machine, interruptions may make one turn take twice as long.
        assert sorted(turns)[-3] < TURN_SECONDS

    use(test)


def test_an_async_client_resubmits_open_tasks_to_the_next_scheduler(scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test() -> None:
        async with AsyncClient(scheduler.address, heartbeat_interval_seconds=0.02) as client:
            future = client.submit(abs, -1)
            await asyncio.to_thread(scheduler.wait_for, Task)
            await asyncio.to_thread(scheduler.close)
            with FakeScheduler(scheduler.address) as second:
                assert await asyncio.wait_for(future, 30) == 1
                assert second.of(ClientHello)[0].client_id == client.identity

    asyncio.run(test())


def test_without_a_scheduler_tasks_fail_after_the_time_out() -> None:
    async def test() -> None:
        async with AsyncClient("tcp://127.0.0.1:1", timeout_seconds=0.3) as client:
            with pytest.raises(TimeoutError, match="no scheduler answered"):
                await client.submit(abs, -1)

    asyncio.run(test())


def test_a_refusal_ends_an_async_client_with_the_reason(scheduler: FakeScheduler) -> None:
    scheduler.refuses_hellos_because = "it is full"

    async def test() -> None:
        async with AsyncClient(scheduler.address) as client:
            with pytest.raises(DisconnectedError, match="it is full"):
                await client.submit(abs, -1)
            with pytest.raises(DisconnectedError, match="it is full"):
                client.submit(abs, -1)

    asyncio.run(test())


def test_garbage_from_the_scheduler_ends_the_connection_and_no_task(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        assert await client.submit(abs, -1) == 1
        scheduler.send_bytes(b"garbage")
        assert await client.submit(abs, -2) == 2
        assert await client.map(abs, [(n,) for n in range(100)]) == list(range(100))

    use(test)


def test_an_async_client_leaves_no_descriptor_and_no_reader(scheduler: FakeScheduler) -> None:
    async def test() -> None:
        async with AsyncClient(scheduler.address) as client:
            await client.submit(abs, -1)

    asyncio.run(test())
    gc.collect()
    before = open_descriptors()
    for _ in range(3):
        asyncio.run(test())
    wait_until(lambda: open_descriptors() <= before, "ZeroMQ has closed its own, too")


def test_a_failure_of_the_link_fails_its_futures(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: AsyncClient) -> None:
        assert await client.submit(abs, -1) == 1
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context["exception"]))
        monkeypatch.setattr(AsyncLink, "_watch", lambda _link: 1 / 0)
        with pytest.raises(DisconnectedError, match="this is a bug"):
            await client.submit(abs, -1)

    seen: list[Any] = []
    use(test)
    assert [type(error) for error in seen] == [ZeroDivisionError]


def test_an_async_client_cannot_be_used_in_a_forked_process(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
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

    use(test)
