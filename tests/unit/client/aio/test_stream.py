from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from scaler import AsyncClient, ConfigError
from scaler.client import large_values
from scaler.pickling.serialization import size_of
from scaler.wire.messages.client import Task, TaskCancel
from scaler.wire.messages.common import ObjectRequest
from tests.support.fake_scheduler import FakeScheduler
from tests.unit.client.aio.conftest import Use


def test_results_of_an_async_map_have_the_order_of_its_items(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        assert await client.map(pow, [(n, 2) for n in range(3000)]) == [n * n for n in range(3000)]
        assert await client.starmap(pow, ()) == []

    use(test)


def test_a_map_takes_an_asynchronous_iterable(use: Use) -> None:
    async def items() -> AsyncIterator[tuple[int]]:
        for n in range(50):
            await asyncio.sleep(0)
            yield (-n,)

    async def test(client: AsyncClient) -> None:
        assert await client.map(abs, items()) == list(range(50))

    use(test)


def test_an_endless_iterable_is_read_as_fast_as_its_results(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        seen = []
        results = client.map_unordered(abs, ((-n,) for n in itertools.count()), window=8)
        async with aclosing(results) as values:  # type: ignore[type-var]
            async for value in values:
                seen.append(value)
                if len(seen) == 100:
                    break
        assert set(seen) <= set(range(108))
        assert len(scheduler.of(Task)) <= 108

    use(test)


def test_unread_results_count_against_the_window(use: Use, scheduler: FakeScheduler) -> None:
    async def test(client: AsyncClient) -> None:
        results = client.map_unordered(abs, ((-n,) for n in itertools.count()), window=8)
        async with aclosing(results) as values:  # type: ignore[type-var]
            await anext(values)
            for n in range(50):
                assert await client.submit(abs, -n) == n
            assert len(scheduler.of(Task)) <= 50 + 8 + 1

    use(test)


def test_large_results_wait_at_the_scheduler_for_a_slow_reader(
    use: Use, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_values, "UNREAD_BYTES", 1_000_000)

    async def test(client: AsyncClient) -> None:
        results = client.map_unordered(bytes, ((300_000 + n,) for n in range(20)))
        async with aclosing(results) as values:  # type: ignore[type-var]
            sizes = {len(await anext(values))}
            await asyncio.to_thread(scheduler.wait_until, lambda: len(scheduler.objects) >= 19 - 5)
            assert await client.submit(abs, -1) == 1  # earlier requests have arrived
            assert len(scheduler.of(ObjectRequest)) <= 1 + 4
            sizes |= {len(await anext(values)) for _ in range(9)}
            assert len(scheduler.of(ObjectRequest)) <= 10 + 4
        assert len(sizes) == 10
        is_empty = lambda: not [frames for frames in scheduler.objects.values() if size_of(frames) > 9999]  # noqa: E731
        await asyncio.to_thread(scheduler.wait_until, is_empty)
        assert [len(value) async for value in client.map_unordered(bytes, [(300_000,)] * 20)] == [300_000] * 20

    use(test)


def test_cancelling_an_async_map_cancels_its_open_tasks(use: Use, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    async def test(client: AsyncClient) -> None:
        reading = asyncio.ensure_future(client.map(abs, ((-n,) for n in itertools.count()), window=8))
        await asyncio.to_thread(scheduler.wait_for, Task, 8)
        reading.cancel()
        await asyncio.to_thread(scheduler.wait_for, TaskCancel, 8)
        assert len(scheduler.of(Task)) == 8

    use(test)


def test_the_first_failure_ends_an_async_map_and_cancels_its_other_tasks(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            await client.map(int, [("1",), ("x",), ("3",)])
        first, second, third = await client.map(int, [("1",), ("x",), ("3",)], return_exceptions=True)
        assert (first, third) == (1, 3)
        assert isinstance(second, ValueError)
        assert await client.submit(abs, -1) == 1

    use(test)


@pytest.mark.parametrize(("items", "said"), [([(1,), 2], "item 1 is 2"), ([(1, 2, 3, 4)], "int")])
def test_items_that_are_no_arguments_are_refused(use: Use, items: Any, said: str) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(TypeError, match=said):
            await client.map(int, items)

    use(test)


def test_an_iterable_that_raises_ends_the_map_with_its_exception(use: Use) -> None:
    def items() -> Iterator[tuple[int]]:
        yield (1,)
        raise RuntimeError("no more of these")

    async def test(client: AsyncClient) -> None:
        with pytest.raises(RuntimeError, match="no more of these"):
            await client.map(abs, items())

    use(test)


def test_a_window_of_zero_is_refused(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(ConfigError, match="window"):
            await client.map(abs, [(1,)], window=0)

    use(test)


def test_the_error_of_an_async_map_names_its_item(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            await client.map(divmod, [(1, 1), (7, 0)])
        assert "task divmod(7, 0) (item 1 of the map)" in str(caught.value.__cause__)
        found = [error async for error in client.map_unordered(divmod, iter([(7, 0)]), return_exceptions=True)]
        assert "task divmod (item 0 of the map)" in str(found[0].__cause__)  # type: ignore[union-attr]
        with pytest.raises(TypeError, match=r"item 0 is 1: write \(\(x,\) for x in items\)"):
            await client.map(abs, [1])  # type: ignore[list-item]

    use(test)
