"""Rows that travel together: users notice nothing of it, whatever happens to one of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from scaler import AsyncClient, Client, ProcessorDiedError, SchedulerClusterCombo, current_task
from scaler.client.calls.entry import Entry
from scaler.client.calls.functions import Function
from scaler.client.maps.row_source import RowSource
from tests.support.faces import FACES, AnyClient, Use, user, with_client
from tests.support.processes import wait_until
from tests.support.rows import double, odd_ones_raise, one_ends_its_process, one_is_large

ROWS = list(range(2000))
ITEMS = [(row,) for row in ROWS]


RANGE_ENTRY = Function.range_entry


def longest(source: RowSource, left: int) -> int:
    return max(1, min(source._link.rows_most, left))


def record(function: Function, lengths: list[int], *call: Any) -> Entry:
    entry = RANGE_ENTRY(function, *call)
    lengths.append(entry[0].rows or 1)
    return entry


def note(row: int, folder: str) -> int:
    (Path(folder) / str(row)).touch()
    return row


def joined(first: bytearray, second: bytes) -> bytes:
    first += second
    return bytes(first)


def write(row: int) -> int:
    if row == 700:
        print("row", row)
    return row


def who_am_i(row: int) -> bytes:
    task = current_task()
    assert task is not None
    return bytes.fromhex(task.task_id) if isinstance(task.task_id, str) else task.task_id


def one_takes_long(row: int, folder: str) -> int:
    if row == 700:
        while len(list(Path(folder).iterdir())) < 1000:
            time.sleep(0.01)
    elif row > 1000:
        (Path(folder) / str(row)).touch()
    return row


def waits_for_its_range(row: int, folder: str) -> int:
    """Have the first row of a range wait for all others of it."""
    others = {str(other) for other in range(641, 704)}
    while row == 640 and not others <= {path.name for path in Path(folder).iterdir()}:
        time.sleep(0.01)
    return note(row, folder)


def wait_for(path: str) -> bool:
    while not Path(path).exists():
        time.sleep(0.01)
    return True


def some_raise_once(row: int, folder: str) -> int:
    if row % 100 == 7:
        with (Path(folder) / str(row)).open("a") as file:
            file.write("x")
        if (Path(folder) / str(row)).stat().st_size == 1:
            raise OSError(row)
    return row


def one_never_ends(row: int) -> int:
    while row == 700:
        time.sleep(0.01)
    return row


def nested_map(rows: int) -> tuple[int, int]:
    lengths: list[int] = []
    recorded = patch.object(Function, "range_entry", partialmethod(record, lengths))
    with Client() as client, patch.object(RowSource, "_next_range_size", longest), recorded:
        client.submit(double, 1).result()  # the scheduler has said how many rows it takes
        return sum(client.map(double, [(row,) for row in range(rows)])), max(lengths)


def leaves_a_map(folder: str) -> None:
    with Client() as client, patch.object(RowSource, "_next_range_size", longest):
        client.submit(double, 1).result()
        client.map(note_and_wait, [(row, folder) for row in range(400)])


def note_and_wait(row: int, folder: str) -> None:
    (Path(folder) / str(row)).touch()
    time.sleep(0.05)


def nested(row: int) -> int:
    if row % 500:
        return row
    with Client() as client:
        return client.submit(double, row).result() // 2


@pytest.fixture(scope="module", params=[64, pytest.param(1, marks=pytest.mark.more)])
def most(request: pytest.FixtureRequest) -> int:
    """How many rows travel together; with 1 each is a task: that users notice nothing is tested both ways."""
    return int(request.param)


@pytest.fixture(scope="module")
def client(most: int) -> Iterator[Client]:
    """A client whose maps travel in ranges: it knows that these functions are short."""
    with SchedulerClusterCombo(n_workers=2, rows_per_task=most) as combo, Client(combo.get_address()) as client:
        yield client


@pytest.fixture(autouse=True)
def ranges(client: Client, most: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The lengths of the ranges of a test, which takes all functions for short."""
    client.submit(double, 1).result()  # the scheduler has said how many rows it takes
    lengths: list[int] = []

    monkeypatch.setattr(RowSource, "_next_range_size", longest)
    monkeypatch.setattr(Function, "range_entry", partialmethod(record, lengths))
    yield lengths
    assert (max(lengths, default=1) > 1) is (most > 1)


@pytest.fixture(params=FACES)
def use(request: pytest.FixtureRequest, client: Client) -> Use:
    """Run a test in a loop of its own, with a client of either kind."""

    async def after_the_hello(test: Callable[[AnyClient], Any], one: AnyClient) -> None:
        await one.submit(double, 1)  # the scheduler has said how many rows it takes
        await test(one)

    run = user(FACES[request.param], client._core.link.address)
    return lambda test: run(partial(after_the_hello, test))


@with_client
async def test_results_are_in_the_order_of_the_items(client: AnyClient) -> None:
    assert await client.map(double, ITEMS) == [2 * row for row in ROWS]


@with_client
async def test_each_row_that_raises_has_its_own_error(client: AnyClient) -> None:
    results = await client.map(odd_ones_raise, ITEMS, return_exceptions=True)
    assert results[::2] == ROWS[::2]
    assert [(type(error), error.args) for error in results[1::2]] == [(ValueError, (row,)) for row in ROWS[1::2]]


@with_client
async def test_the_first_error_ends_the_map(client: AnyClient) -> None:
    with pytest.raises(ValueError, match=r"^\d*[13579]$"):
        await client.map(odd_ones_raise, ITEMS)
    assert await client.map(double, ITEMS[:3]) == [0, 2, 4]


@with_client
async def test_the_row_that_ends_its_process_is_to_blame(client: AnyClient) -> None:
    results = await client.map(one_ends_its_process, ITEMS, return_exceptions=True)
    assert isinstance(results[700], ProcessorDiedError)
    assert "item 700" in str(results[700])
    assert results[:700] + results[701:] == ROWS[:700] + ROWS[701:]


@with_client
async def test_a_large_result_travels_alone(client: AnyClient) -> None:
    results = await client.map(one_is_large, ITEMS)
    assert results[700] == bytes(300_000)
    assert results[:700] + results[701:] == ROWS[:700] + ROWS[701:]


def test_a_row_that_writes_is_a_row_as_any(client: Client) -> None:
    assert client.map(write, ITEMS) == ROWS


def test_each_row_has_an_id_of_its_own(client: Client) -> None:
    assert len(set(client.map(who_am_i, ITEMS))) == len(ROWS)


def test_a_long_row_does_not_hold_up_those_behind_it(client: Client, tmp_path: Path) -> None:
    assert client.map(one_takes_long, [(row, str(tmp_path)) for row in [*ROWS, 2000]], timeout=60) == [*ROWS, 2000]


def test_rows_behind_a_long_row_of_the_same_range_run_on_other_workers(client: Client, tmp_path: Path) -> None:
    items = [(row, str(tmp_path)) for row in ROWS]
    assert client.map(waits_for_its_range, items, timeout=120) == ROWS


def test_a_map_that_takes_too_long_is_cancelled_and_workers_are_free(client: Client, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        client.map(one_takes_long, [(700, str(tmp_path))] * 200, timeout=0.5)
    assert client.map(double, ITEMS) == [2 * row for row in ROWS]


@with_client
async def test_ranges_carry_arguments_that_are_not_plain(client: AnyClient) -> None:
    waiting = client.submit(double, 21)
    items = [*ITEMS[:100], (waiting,), *ITEMS[100:200]]
    assert await client.map(double, items) == [*range(0, 200, 2), 84, *range(200, 400, 2)]
    assert await client.map(len, [([row] * 3,) for row in ROWS]) == [3] * len(ROWS)


@with_client
async def test_ranges_carry_arguments_with_frames_that_belong_to_their_row(client: AnyClient) -> None:
    items = [
        (bytearray([row % 256]) * (30_000 if row % 50 else 70_000), bytes([row % 256]) * 9_000) for row in ROWS[:300]
    ]
    assert await client.map(joined, items) == [bytes(first) + second for first, second in items]
    assert await client.map(joined, iter(items)) == [bytes(first) + second for first, second in items]


def test_rows_may_wait_for_tasks_of_their_own(client: Client) -> None:
    assert client.map(nested, ITEMS, timeout=60) == ROWS


@pytest.mark.parametrize("rows", [iter, lambda items: (item for item in items)], ids=["iterator", "generator"])
@with_client
async def test_items_of_a_slow_iterable_travel_together(
    client: AnyClient, rows: Callable[[list[tuple[int]]], Iterable[tuple[int]]]
) -> None:
    assert await client.map(double, rows(ITEMS)) == [2 * row for row in ROWS]


def test_ranges_carry_items_of_several_iterables(client: Client) -> None:
    assert client.starmap(divmod, zip(ROWS, [7] * len(ROWS), strict=True)) == [divmod(row, 7) for row in ROWS]


@pytest.mark.parametrize("rows", [list, iter])
@with_client
async def test_unordered_results_travel_in_ranges(
    client: AnyClient, rows: Callable[[list[tuple[int]]], Iterable[tuple[int]]]
) -> None:
    assert sorted([each async for each in client.map_unordered(double, rows(ITEMS))]) == [2 * row for row in ROWS]


def test_no_row_waits_for_a_later_one(client: Client, tmp_path: Path) -> None:
    def items() -> Iterator[tuple[int, str]]:
        yield from ((row, str(tmp_path)) for row in ROWS)
        for row in range(len(ROWS), len(ROWS) + 5):
            until = time.monotonic() + 30
            while not (tmp_path / str(row - 1)).exists():
                assert time.monotonic() < until
                time.sleep(0.01)
            yield row, str(tmp_path)

    assert client.map(note, items()) == list(range(len(ROWS) + 5))
    for each in tmp_path.iterdir():
        each.unlink()
    assert sorted(client.map_unordered(note, items(), window=3000)) == list(range(len(ROWS) + 5))


def test_rows_of_a_slow_iterable_travel_alone_if_their_arguments_are_large(client: Client) -> None:
    items = ((bytes(20_000 if row == 700 else 1),) for row in ROWS)
    assert client.map(len, items) == [20_000 if row == 700 else 1 for row in ROWS]


def test_errors_of_a_slow_iterable_name_their_items(client: Client) -> None:
    with pytest.raises(ValueError, match=r"^\d*[13579]$"):
        client.map(odd_ones_raise, iter(ITEMS))
    results = list(client.map_unordered(odd_ones_raise, iter(ITEMS), return_exceptions=True))
    assert sorted(result for result in results if isinstance(result, int)) == ROWS[::2]
    assert sorted(result.args[0] for result in results if isinstance(result, ValueError)) == ROWS[1::2]
    with pytest.raises(TypeError, match="item 1999"):
        client.map(double, iter([*ITEMS[:-1], 1999]))  # type: ignore[list-item]  # on purpose


def test_waiting_rows_are_counted_as_tasks(client: Client, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    busy = [client.submit(wait_for, str(stop)) for _ in range(2)]
    with ThreadPoolExecutor(1) as thread:
        results = thread.submit(client.map, double, ITEMS)
        while client.info().waiting_tasks < 1000:
            time.sleep(0.01)
        stop.touch()
        assert results.result() == [2 * row for row in ROWS]
    assert all(each.result() for each in busy)


def test_ranges_carry_rows_with_names_priorities_retries_and_limits(client: Client, tmp_path: Path) -> None:
    caller = client.options(name="again", priority=3, retries=2, retry_on=OSError, timeout=30)
    assert caller.map(some_raise_once, [(row, str(tmp_path)) for row in ROWS]) == ROWS
    assert {file.read_text() for file in tmp_path.iterdir()} == {"xx"}


def test_only_the_row_over_its_time_limit_ends(client: Client) -> None:
    results = client.options(timeout=1).map(one_never_ends, ITEMS, return_exceptions=True)
    assert isinstance(results[700], TimeoutError)
    assert results[:700] + results[701:] == ROWS[:700] + ROWS[701:]


def test_rows_that_are_not_tried_again_fail_as_they_would_alone(client: Client) -> None:
    results = client.options(retries=1, retry_on=KeyError).map(odd_ones_raise, ITEMS, return_exceptions=True)
    assert results[::2] == ROWS[::2]
    assert [(type(error), error.args) for error in results[1::2]] == [(ValueError, (row,)) for row in ROWS[1::2]]


def test_maps_inside_tasks_travel_in_ranges(client: Client, most: int) -> None:
    client.map(double, ITEMS)
    assert client.map(nested_map, [(1000,)] * 4) == [(999_000, most)] * 4


def test_the_map_of_a_task_that_is_cancelled_ends_with_it(client: Client, tmp_path: Path) -> None:
    client.map(double, ITEMS)
    future = client.submit(leaves_a_map, str(tmp_path))
    wait_until(lambda: list(tmp_path.iterdir()), "a row has begun")
    future.cancel()
    assert client.map(double, ITEMS) == [2 * row for row in ROWS]
    assert len(list(tmp_path.iterdir())) < 400


def test_rows_of_an_asynchronous_iterable_travel_together(client: Client) -> None:
    async def items() -> AsyncIterator[tuple[int]]:
        for item in ITEMS:
            yield item

    async def test(one: AnyClient) -> None:
        await one.submit(double, 1)
        assert sorted([each async for each in one.map_unordered(double, items())]) == [2 * row for row in ROWS]
        assert await one.map(double, items()) == [2 * row for row in ROWS]

    user(AsyncClient, client._core.link.address)(test)


def test_a_map_that_a_coroutine_cancels_leaves_workers_free(client: Client, tmp_path: Path) -> None:
    async def test(one: AnyClient) -> None:
        await one.submit(double, 1)
        slow = asyncio.ensure_future(one.map(note_and_wait, [(row, str(tmp_path)) for row in range(400)]))
        await asyncio.to_thread(wait_until, lambda: list(tmp_path.iterdir()), "a row has begun")
        slow.cancel()
        await asyncio.wait([slow])
        assert await one.map(double, ITEMS) == [2 * row for row in ROWS]

    user(AsyncClient, client._core.link.address)(test)
    assert len(list(tmp_path.iterdir())) < 400
