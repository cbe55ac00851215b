"""Maps of an `AsyncClient`: asynchronous iterables, and turns of the loop."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from scaler import Serializer
from scaler.client.aio.maps import ITEMS_A_TURN, drawn_in_loop
from scaler.client.aio.queries import LoopWake
from scaler.client.maps import map_run
from scaler.client.outcome import read_value
from scaler.pickling.serialization import Frames, size_of
from scaler.wire.messages.client import Task, TaskCancel
from tests.support.faces import CANCELLED, AnyClient, with_client
from tests.support.fake_scheduler import FakeScheduler

LARGE = 2_000_000


class Items:
    """An asynchronous iterator that records how many items were drawn, and whether it was closed."""

    def __init__(self, items: Any = None) -> None:
        self.n_drawn, self.is_closed = 0, False
        self._items = iter(((-n,) for n in itertools.count()) if items is None else items)

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            for item in self._items:
                self.n_drawn += 1
                await asyncio.sleep(0)
                yield item
        finally:
            await asyncio.sleep(0)  # to close it may take a while
            self.is_closed = True


@with_client
async def test_a_map_takes_an_asynchronous_iterable(client: AnyClient) -> None:
    assert await client.map(abs, Items((-n,) for n in range(200))) == list(range(200))
    found = [each async for each in client.map_unordered(abs, Items((-n,) for n in range(200)), window=3)]
    assert sorted(found) == list(range(200))
    assert await client.map(abs, Items(())) == []


@with_client
async def test_an_endless_asynchronous_iterable_is_read_as_fast_as_its_results(
    client: AnyClient, scheduler: FakeScheduler
) -> None:
    items = Items()
    async with aclosing(client.map_unordered(abs, items, window=8)) as results:
        seen = {await anext(results) for _ in range(100)}
        assert items.n_drawn <= 100 + 8 + ITEMS_A_TURN
    assert seen <= set(range(108))
    assert len(scheduler.of(Task)) <= 108
    assert items.is_closed


@pytest.mark.parametrize("name", ["map", "map_unordered"])
@with_client
async def test_an_asynchronous_iterable_that_is_slow_fills_the_window(
    client: AnyClient, scheduler: FakeScheduler, name: str
) -> None:
    scheduler.answers_tasks = False

    async def items() -> AsyncIterator[tuple[int]]:
        yield (0,)
        for number in itertools.count(1):
            await asyncio.to_thread(scheduler.wait_for, Task, number)  # the items before it have been sent
            yield (number,)

    found = getattr(client, name)(abs, items(), window=8)
    reading = asyncio.ensure_future(found if name == "map" else anext(found))
    await asyncio.to_thread(scheduler.wait_for, Task, 8)
    reading.cancel()
    await asyncio.wait([reading])
    assert len(scheduler.of(Task)) == 8


@with_client
async def test_a_result_is_yielded_while_an_asynchronous_iterator_waits(client: AnyClient) -> None:
    was_read = asyncio.Event()

    async def items() -> AsyncIterator[tuple[int]]:
        yield (-1,)
        await was_read.wait()
        yield (-2,)

    results = client.map_unordered(abs, items())
    assert await anext(results) == 1
    was_read.set()
    assert [each async for each in results] == [2]


@with_client
async def test_an_asynchronous_iterable_that_raises_ends_the_map_with_its_exception(client: AnyClient) -> None:
    async def items() -> AsyncIterator[tuple[int]]:
        yield (1,)
        raise LookupError("no more of these")

    with pytest.raises(LookupError, match="no more of these"):
        await client.map(abs, items())
    with pytest.raises(LookupError, match="no more of these"):
        [each async for each in client.map_unordered(abs, items())]


async def mapped(client: AnyClient, items: Any, **arguments: Any) -> None:
    await client.map(int, items, **arguments)


async def unordered(client: AnyClient, items: Any, **arguments: Any) -> None:
    async with aclosing(client.map_unordered(int, items, **arguments)) as results:
        async for _ in results:
            """Read all of them."""


BOTH = pytest.mark.parametrize("run", [mapped, unordered])


@BOTH
@with_client
async def test_an_asynchronous_iterator_is_closed_when_its_map_fails(
    client: AnyClient, run: Callable[..., Any]
) -> None:
    for bad in (("x",), 3):
        items = Items(itertools.chain([("1",), bad], itertools.repeat(("1",))))
        with pytest.raises((ValueError, TypeError)):
            await run(client, items)
        assert items.is_closed


@BOTH
@with_client
async def test_an_asynchronous_iterator_is_closed_at_the_time_out(
    client: AnyClient, scheduler: FakeScheduler, run: Callable[..., Any]
) -> None:
    scheduler.answers_tasks = False
    items = Items()
    with pytest.raises(TimeoutError, match=r"0 of the first 4 results after 0\.05 s"):
        await run(client, items, timeout=0.05, window=4)
    assert items.is_closed


@BOTH
@pytest.mark.parametrize("is_async", [True, False])
@with_client
async def test_a_map_that_is_cancelled_cancels_its_tasks_and_closes_its_iterator(
    client: AnyClient, scheduler: FakeScheduler, run: Callable[..., Any], is_async: bool
) -> None:
    scheduler.answers_tasks = False
    items, is_closed = Items(), False

    def ordinary() -> Any:
        nonlocal is_closed
        try:
            yield from ((n,) for n in itertools.count())
        finally:
            is_closed = True

    reading = asyncio.ensure_future(run(client, items if is_async else ordinary(), window=8))
    await asyncio.to_thread(scheduler.wait_for, Task, 8)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert items.is_closed if is_async else is_closed
    await asyncio.to_thread(scheduler.wait_for, TaskCancel, 8)
    assert len(scheduler.of(Task)) == 8


@pytest.mark.parametrize("make", [Items, lambda: ((n,) for n in itertools.count())])
def test_items_that_a_thread_draws_too_late_are_not_taken_for_all(make: Callable[[], Any]) -> None:
    async def test() -> None:
        async with drawn_in_loop(make(), None) as drawn:
            rows = iter(drawn)
            assert [await asyncio.to_thread(next, rows) for _ in range(3)] in ([(0,), (1,), (2,)], [(0,), (-1,), (-2,)])
        with pytest.raises(CANCELLED):
            await asyncio.to_thread(next, rows)

    asyncio.run(test())


def test_an_asynchronous_iterator_that_waits_is_closed_too() -> None:
    async def test() -> None:
        waits, closed = asyncio.Event(), asyncio.Event()

        async def items() -> AsyncIterator[tuple[int]]:
            try:
                yield (1,)
                waits.set()
                await asyncio.Event().wait()
            finally:
                closed.set()

        async with drawn_in_loop(items(), None) as drawn:
            reading = asyncio.ensure_future(asyncio.to_thread(list, drawn))
            await waits.wait()
        assert closed.is_set()
        with pytest.raises(CANCELLED):
            await reading

    asyncio.run(test())


def test_a_map_that_is_woken_after_its_loop_was_closed_is_no_error() -> None:
    async def new() -> LoopWake:
        return LoopWake()

    wake = asyncio.run(new())
    wake.set()
    wake.set()


@BOTH
@with_client
async def test_an_iterator_that_is_cancelled_cancels_its_map(client: AnyClient, run: Callable[..., Any]) -> None:
    async def items() -> AsyncIterator[tuple[int]]:
        yield (1,)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run(client, items())


@pytest.mark.parametrize("name", ["map", "map_unordered"])
@with_client
async def test_large_results_of_maps_are_read_in_another_thread(
    client: AnyClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    threads: list[int] = []

    def noted(serializer: Serializer, frames: Frames) -> Any:
        if size_of(frames) >= LARGE:
            threads.append(threading.get_ident())
        return read_value(serializer, frames)

    monkeypatch.setattr(map_run, "read_value", noted)
    found = getattr(client, name)(bytes, [(LARGE,)] * 3)
    values = await found if name == "map" else [value async for value in found]
    assert [len(value) for value in values] == [LARGE] * 3
    assert len(threads) == 3
    assert threading.get_ident() not in threads
