"""AsyncClient against a real cluster."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scaler import AsyncClient, ConfigError, DisconnectedError, task_context
from tests.support.processes import children, descendants, wait_until
from tests.support.timing import at_best

SECONDS = 60.0
PAUSE_SECONDS = 0.1
"""the longest time between two turns of a loop: some hundredths of a second in fact"""
LOOPS = ["builtin", "uvloop"]


def run(main: Coroutine[Any, Any, None], loop: str = "builtin") -> None:
    bounded = asyncio.wait_for(main, SECONDS)
    if loop == "builtin":
        asyncio.run(bounded)
    else:
        uvloop = pytest.importorskip("uvloop")
        uvloop.run(bounded)


def runs_until_interrupted(note: str) -> None:
    Path(note).write_text("runs")
    try:
        time.sleep(60)
    finally:
        Path(note).write_text("interrupted")


def large(n_bytes: int) -> bytes:
    return bytes(n_bytes)


async def sum_of_squares(n: int) -> int:
    async with AsyncClient() as client:
        return sum(await client.map(pow, [(i, 2) for i in range(n)]))


async def two_clients() -> tuple[bool, int]:
    async with AsyncClient() as one:
        async with AsyncClient() as other:
            future = one.submit(pow, 2, 5)
            is_shared = one.identity == other.identity
        return is_shared, await future


def with_two_clients() -> tuple[bool, int]:
    return asyncio.run(two_clients())


def nested(n: int) -> int:
    return asyncio.run(sum_of_squares(n))


@pytest.mark.parametrize("loop", LOOPS)
def test_ten_thousand_open_awaits(address: str, loop: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as client:

            async def one(n: int) -> int:
                return await client.submit(abs, -n)

            assert sum(await asyncio.gather(*map(one, range(10_000)))) == sum(range(10_000))

    run(main(), loop)


async def ten_thousand_futures(client: AsyncClient) -> None:
    futures = []
    for n in range(10_000):
        futures.append(client.submit(abs, -n))
        if n % 100 == 0:
            await asyncio.sleep(0)
    for n, future in enumerate(futures):
        assert await future == n


async def hundred_thousand_rows(client: AsyncClient) -> None:
    assert len(await client.map(abs, [(-n,) for n in range(100_000)])) == 100_000


async def hundred_thousand_rows_of_an_iterator(client: AsyncClient) -> None:
    total = 0
    async for value in client.map_unordered(abs, ((-n,) for n in range(100_000))):
        total += value
    assert total == sum(range(100_000))


@pytest.mark.thorough
@pytest.mark.parametrize("work", [ten_thousand_futures, hundred_thousand_rows, hundred_thousand_rows_of_an_iterator])
def test_the_loop_has_its_turns_while_many_tasks_run(
    address: str, work: Callable[[AsyncClient], Coroutine[Any, Any, None]]
) -> None:
    async def longest_pause(client: AsyncClient) -> float:
        working, longest, before = asyncio.ensure_future(work(client)), 0.0, time.monotonic()
        while not working.done():
            await asyncio.sleep(0)
            now = time.monotonic()
            longest, before = max(longest, now - before), now
        await working
        return longest

    async def main() -> float:
        async with AsyncClient(address) as client:
            assert await client.submit(abs, -1) == 1
            return await longest_pause(client)

    def measure() -> float:
        gc.collect()
        gc.disable()  # a collection of the whole program would count
        try:
            return asyncio.run(main())
        finally:
            gc.enable()

    assert at_best(measure, PAUSE_SECONDS) < PAUSE_SECONDS


@pytest.mark.parametrize("loop", LOOPS)
def test_values_of_all_sizes_and_ways(address: str, loop: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as client:
            for size in (0, 100_000, 5_000_000):
                assert len(await client.submit(large, size)) == size
                assert await client.submit(len, bytes(size)) == size
            reference = await client.send_object(bytes(3_000_000))
            assert await client.map(len, [(reference,)] * 20) == [3_000_000] * 20
            assert {value async for value in client.map_unordered(abs, ((-n,) for n in range(2000)))} == set(
                range(2000)
            )
            assert await client.get({"a": bytes(2_000_000), "n": (len, "a"), "s": (str, "n")}, ["s"]) == {
                "s": "2000000"
            }
            with pytest.raises(ZeroDivisionError) as caught:
                await client.get({"bad": (divmod, 1, 0), "top": (abs, "bad")}, ["top"])
            assert "\ntask bad, which task top needs:\n" in str(caught.value.__cause__)

    run(main(), loop)


def test_a_time_out_interrupts_the_task_on_its_worker(address: str, tmp_path: Path) -> None:
    note = tmp_path / "note"

    async def main() -> None:
        async with AsyncClient(address) as client:
            future = client.submit(runs_until_interrupted, str(note))
            await asyncio.to_thread(wait_until, note.exists, "the task runs")
            with pytest.raises((asyncio.TimeoutError, TimeoutError)):
                await asyncio.wait_for(future, 0.01)
            await asyncio.to_thread(wait_until, lambda: note.read_text() == "interrupted", "it was interrupted")
            assert await client.submit(abs, -1) == 1

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio has them from 3.11 on")
def test_a_task_group_that_fails_and_a_timeout_interrupt_their_tasks(address: str, tmp_path: Path) -> None:
    async def has_begun(note: Path) -> None:
        await asyncio.to_thread(wait_until, note.exists, "the task runs")

    async def fail_when(note: Path) -> None:
        await has_begun(note)
        raise ZeroDivisionError

    async def use(client: AsyncClient, note: Path) -> None:
        await client.submit(runs_until_interrupted, str(note))

    async def in_a_group(client: AsyncClient, note: Path) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(use(client, note))
            group.create_task(fail_when(note))

    async def in_time(client: AsyncClient, note: Path) -> None:
        async with asyncio.timeout(None) as limit:
            asyncio.ensure_future(has_begun(note)).add_done_callback(lambda _: limit.reschedule(0))
            await use(client, note)

    async def main() -> None:
        async with AsyncClient(address) as client:
            for way in (in_a_group, in_time):
                note = tmp_path / way.__name__
                with pytest.raises((ExceptionGroup, TimeoutError)):  # noqa: F821 - there from 3.11 on
                    await way(client, note)
                interrupted = partial(lambda note: note.read_text() == "interrupted", note)
                await asyncio.to_thread(wait_until, interrupted, "it was interrupted")

    run(main())


def test_a_cancelled_task_of_the_loop_cancels_its_map(address: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncClient(address) as client:
            notes = [tmp_path / str(n) for n in range(2)]
            mapping = asyncio.ensure_future(client.map(runs_until_interrupted, [(str(note),) for note in notes]))
            await asyncio.to_thread(wait_until, lambda: all(note.exists() for note in notes), "both run")
            mapping.cancel()
            is_over: Callable[[], bool] = lambda: all(note.read_text() == "interrupted" for note in notes)  # noqa: E731
            await asyncio.to_thread(wait_until, is_over, "both were interrupted")

    run(main())


def test_a_task_may_have_an_async_client(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as client:
            assert await client.map(nested, [(n,) for n in (3, 4, 5, 6)]) == [5, 14, 30, 55]
            assert await client.submit(with_two_clients) == (True, 32), "they share the connection of the process"
            assert task_context.current.address is None

    run(main())


def test_two_clients_in_two_loops(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as client:
            there = asyncio.to_thread(partial(run, one()))
            assert await client.map(abs, [(-n,) for n in range(500)]) == list(range(500))
            await there

    async def one() -> None:
        async with AsyncClient(address) as client:
            assert await client.map(abs, [(-n,) for n in range(500)]) == list(range(500))

    run(main())


def test_the_local_cluster_of_an_async_client_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)
    before = children()

    async def main() -> None:
        async with AsyncClient() as client:
            assert await client.submit(os.getppid) in descendants()

    run(main())
    wait_until(lambda: children() <= before, "scheduler and agent have ended")


def test_a_client_that_connects_twice_at_once_has_one_cluster_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)
    before = children()

    async def main() -> None:
        client = AsyncClient()
        await asyncio.gather(client.connect(), client.connect())
        assert len(children() - before) == 2, "a scheduler and an agent"
        await client.disconnect()

    run(main())
    wait_until(lambda: children() <= before, "scheduler and agent have ended")


def test_a_connect_that_is_cancelled_leaves_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)
    before = children()

    async def main() -> None:
        connecting = asyncio.ensure_future(AsyncClient().connect())
        await asyncio.to_thread(wait_until, lambda: children() - before, "the scheduler starts")
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    run(main())
    wait_until(lambda: children() <= before, "scheduler and agent have ended")


def test_info_and_workers_of_an_async_client(address: str) -> None:
    async def use() -> None:
        async with AsyncClient(address) as client:
            assert (await client.wait_for_workers(2, timeout=60)).workers == 2
            names = {worker.name for worker in await client.workers()}
            info = await client.info()
            assert (info.address, info.workers, len(names)) == (address, 2, 2)
            with pytest.raises(TimeoutError, match="2 of 3 workers"):
                await client.wait_for_workers(3, timeout=1)
            with pytest.raises(ConfigError):
                await client.wait_for_workers(0)
            before = await client.run_on_all(os.getpid)
            assert before.keys() == names
            await client.restart_workers()
            after = await client.options(name="who").run_on_all(os.getpid)
            assert not set(before.values()) & set(after.values())
            with pytest.raises(ZeroDivisionError):
                await client.run_on_all(divmod, 1, 0)
        with pytest.raises(DisconnectedError):
            await client.info()

    asyncio.run(use())


def talks() -> None:
    print("from the task")


def test_story_logs_and_trace(address: str, tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncClient(address) as client:
            path = tmp_path / "run.json"
            async with client.trace(path):
                future = client.submit(talks)
                await future
            assert "talks" in path.read_text()
            assert (await client.logs(future)).text == "from the task"
            assert (await client.logs(future.task_id)).text == "from the task"
            where = (await client.logs(future))[0].worker
            assert [(each.state, each.worker) for each in [await client.story(future)]] == [("success", where)]
            assert [(each.waits_for, each.worker) for each in [await client.story(future.task_id)]] == [
                ("ended", where)
            ]
            running = tmp_path / "note"
            waiting = client.submit(runs_until_interrupted, str(running))
            await asyncio.to_thread(wait_until, running.exists, "it runs")
            story = await client.story(waiting.task_id)
            assert story.state == "running"
            assert (story.worker != "", (await client.story(waiting)).state) == (True, "running")

    run(use())


@pytest.mark.more
def test_a_wait_for_workers_ends_with_its_client_and_its_task(address: str) -> None:
    async def use() -> None:
        async with AsyncClient(address) as client:
            await client.wait_for_workers(2)
            given_up = asyncio.ensure_future(client.wait_for_workers(9))
            waiting = asyncio.ensure_future(client.wait_for_workers(9))
            assert (await client.info()).workers == 2
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            assert (await client.info()).workers == 2
        with pytest.raises((DisconnectedError, asyncio.CancelledError)):
            await waiting

    asyncio.run(use())
