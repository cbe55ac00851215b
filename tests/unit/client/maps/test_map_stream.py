"""What a map that yields results as they arrive does, for both faces of a client."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from scaler.client import large_values
from scaler.config import ConfigError
from scaler.pickling.serialization import size_of
from scaler.wire.messages.client import Task, TaskCancel
from scaler.wire.messages.common import ObjectRequest
from tests.support.faces import AnyClient, ClosedItems, link_of, with_client
from tests.support.fake_scheduler import FakeScheduler
from tests.support.processes import wait_until


def boom(text: str) -> None:
    raise ValueError(text)


@with_client
async def test_map_unordered_returns_each_result_once(client: AnyClient) -> None:
    assert sorted([each async for each in client.map_unordered(abs, ((-n,) for n in range(3000)))]) == list(range(3000))
    assert [each async for each in client.map_unordered(abs, [])] == []


@with_client
async def test_unread_results_count_against_the_window(client: AnyClient, scheduler: FakeScheduler) -> None:
    taken = 0

    def items() -> Iterator[tuple[int]]:
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield (number,)

    async with aclosing(client.map_unordered(abs, items(), window=5)) as results:
        for _ in range(20):
            await anext(results)
        assert taken <= 26
        for n in range(50):
            assert await client.submit(abs, -n) == n
        assert taken <= 26, "unread results count against the window"
    assert len(scheduler.of(Task)) <= 50 + taken


@with_client
async def test_large_results_wait_at_the_scheduler_for_a_slow_reader(
    client: AnyClient, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_values, "UNREAD_BYTES", 1_000_000)
    async with aclosing(client.map_unordered(bytes, ((300_000 + n,) for n in range(20)))) as results:
        sizes = {len(await anext(results))}
        await asyncio.to_thread(scheduler.wait_until, lambda: len(scheduler.objects) >= 19 - 5)
        assert await client.submit(abs, -1) == 1  # earlier requests have arrived
        assert len(scheduler.of(ObjectRequest)) <= 1 + 4
        sizes |= {len(await anext(results)) for _ in range(9)}
        assert len(scheduler.of(ObjectRequest)) <= 10 + 4
    assert len(sizes) == 10
    scheduler.wait_until(lambda: not [frames for frames in scheduler.objects.values() if size_of(frames) > 9999])
    assert [len(each) async for each in client.map_unordered(bytes, [(300_000,)] * 20)] == [300_000] * 20


@with_client
async def test_closing_map_unordered_cancels_the_remaining_tasks(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    async with aclosing(client.map_unordered(abs, [(1,), (2,)])) as results:
        first = asyncio.ensure_future(anext(results))
        scheduler.run((await asyncio.to_thread(scheduler.wait_for, Task, 2))[0])
        assert await first == 1
    scheduler.wait_for(TaskCancel)


@with_client
async def test_a_failure_is_raised_or_yielded(client: AnyClient) -> None:
    with pytest.raises(ValueError, match="a"):
        [each async for each in client.map_unordered(boom, [("a",)])]
    assert [str(error) async for error in client.map_unordered(boom, [("a",)], return_exceptions=True)] == ["a"]


@with_client
async def test_an_item_that_is_no_tuple_is_a_type_error(client: AnyClient) -> None:
    with pytest.raises(TypeError, match="item 1"):
        [each async for each in client.map_unordered(abs, [(1,), 2])]  # type: ignore[list-item]  # on purpose


@pytest.mark.parametrize("bad", [0, -1, "x"])
@with_client
async def test_a_bad_window_is_refused(client: AnyClient, bad: Any) -> None:
    with pytest.raises(ConfigError, match="window"):
        [each async for each in client.map_unordered(abs, [], window=bad)]


@with_client
async def test_a_timeout_ends_map_unordered(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    with pytest.raises(TimeoutError, match="0 of 1 results"):
        [each async for each in client.map_unordered(abs, [(1,)], timeout=0.1)]


@with_client
async def test_a_result_that_has_arrived_is_yielded_before_the_next_item_of_an_iterator(
    client: AnyClient, scheduler: FakeScheduler
) -> None:
    link, read, read_before = link_of(client), list[int](), list[int]()

    def items() -> Iterator[tuple[int]]:
        yield (-1,)
        scheduler.wait_for(Task)
        wait_until(lambda: link._work.n_open == 0, "the first result has arrived")
        has_arrived = threading.Event()
        link._put(has_arrived.set)
        assert has_arrived.wait(10)
        yield (-2,)
        read_before.extend(read)
        yield (-3,)

    async for value in client.map_unordered(abs, items()):
        read.append(value)
    assert read == [1, 2, 3]
    assert read_before[:1] == [1]


@with_client
async def test_an_iterator_is_closed_when_its_reader_stops(client: AnyClient) -> None:
    items = ClosedItems((n,) for n in itertools.count())
    async with aclosing(client.map_unordered(abs, items, window=3)) as results:
        assert await anext(results) == 0
        assert not items.is_closed
    assert items.is_closed
