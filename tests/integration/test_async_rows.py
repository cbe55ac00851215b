"""Rows of an asyncio client that travel together: users notice nothing of it, whatever happens to one of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from scaler import AsyncClient, ProcessorDiedError, SchedulerClusterCombo
from scaler.client.aio import rows as rows_of_maps
from tests.support.processes import wait_until
from tests.support.rows import double, odd_ones_raise, one_ends_its_process, one_is_large

ROWS = list(range(1000))
ITEMS = [(row,) for row in ROWS]
T = TypeVar("T")


def note_and_wait(row: int, folder: str) -> None:
    (Path(folder) / str(row)).touch()
    time.sleep(0.05)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with SchedulerClusterCombo(n_workers=2, rows_per_task=64) as combo:
        yield combo.get_address()


@pytest.fixture(autouse=True)
def ranges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The lengths of the ranges of a test, which takes all functions for short."""
    lengths: list[int] = []

    def longest(most: int, _mean_us: float, left: int) -> int:
        lengths.append(min(most, left))
        return lengths[-1]

    monkeypatch.setattr(rows_of_maps, "rows_together", longest)
    yield lengths
    assert max(lengths) > 1


def run(address: str, use: Callable[[AsyncClient], Awaitable[T]]) -> T:
    async def with_a_client() -> T:
        async with AsyncClient(address) as client:
            await client.submit(double, 1)  # the scheduler has said how many rows it takes
            return await use(client)

    return asyncio.run(with_a_client())


def test_results_are_in_the_order_of_the_items(address: str) -> None:
    assert run(address, lambda client: client.map(double, ITEMS)) == [2 * row for row in ROWS]


def test_rows_of_an_asynchronous_iterable_and_unordered_results(address: str) -> None:
    async def items() -> AsyncIterator[tuple[int]]:
        for item in ITEMS:
            yield item

    async def use(client: AsyncClient) -> list[int]:
        return [result async for result in client.map_unordered(double, items())]

    assert sorted(run(address, use)) == [2 * row for row in ROWS]


def test_each_row_that_raises_has_its_own_error(address: str) -> None:
    results: list[Any] = run(address, lambda client: client.map(odd_ones_raise, ITEMS, return_exceptions=True))
    assert results[::2] == ROWS[::2]
    assert [(type(error), error.args) for error in results[1::2]] == [(ValueError, (row,)) for row in ROWS[1::2]]


def test_the_row_that_ends_its_process_is_to_blame(address: str) -> None:
    results: list[Any] = run(address, lambda client: client.map(one_ends_its_process, ITEMS, return_exceptions=True))
    assert isinstance(results[700], ProcessorDiedError)
    assert "item 700" in str(results[700])
    assert results[:700] + results[701:] == ROWS[:700] + ROWS[701:]


def test_a_large_result_travels_alone(address: str) -> None:
    results = run(address, lambda client: client.map(one_is_large, ITEMS))
    assert results[700] == bytes(300_000)
    assert results[:700] + results[701:] == ROWS[:700] + ROWS[701:]


def test_items_that_are_not_plain_become_single_tasks(address: str) -> None:
    async def use(client: AsyncClient) -> list[int]:
        waiting = client.submit(double, 21)
        return await client.map(double, [*ITEMS[:100], (waiting,), *ITEMS[100:200]])

    assert run(address, use) == [*range(0, 200, 2), 84, *range(200, 400, 2)]


def test_the_first_error_ends_the_map(address: str) -> None:
    async def use(client: AsyncClient) -> list[int]:
        with pytest.raises(ValueError, match=r"^\d*[13579]$"):
            await client.map(odd_ones_raise, ITEMS)
        return await client.map(double, ITEMS[:40])

    assert run(address, use) == [2 * row for row in ROWS[:40]]


def test_a_map_that_is_cancelled_leaves_workers_free(address: str, tmp_path: Path) -> None:
    async def use(client: AsyncClient) -> list[int]:
        slow = asyncio.ensure_future(client.map(note_and_wait, [(row, str(tmp_path)) for row in range(400)]))
        await asyncio.to_thread(wait_until, lambda: list(tmp_path.iterdir()), "no row has begun")
        slow.cancel()
        await asyncio.wait([slow])
        return await client.map(double, ITEMS)

    assert run(address, use) == [2 * row for row in ROWS]
    assert len(list(tmp_path.iterdir())) < 400
