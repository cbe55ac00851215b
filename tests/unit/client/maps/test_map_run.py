from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn

import pytest

from scaler.client import Client
from scaler.client.calls.job_names import MAP_WINDOW
from scaler.client.maps import map_run
from scaler.client.maps.map_run import PROBE_ROWS
from scaler.client.maps.row_source import RowSource
from scaler.errors import ObjectTooLargeError, SerializeObjectError
from scaler.pickling.serialization import CARRIED_BYTES, size_of
from scaler.wire.messages import rows
from scaler.wire.messages.client import ClientHello, Task, TaskCancel
from scaler.wire.messages.common import HelloReply, InstructionKind, ObjectInstruction
from scaler.wire.messages.rows import RANGE_BYTES
from scaler.wire.session import pipe
from tests.support.faces import CANCELLED, AnyClient, ClosedItems, Face, link_of, user, with_client
from tests.support.fake_scheduler import FakeScheduler
from tests.support.processes import wait_until

LOCK = threading.Lock()


def only_keyword(a: int, *, b: int) -> int:
    return a + b


def boom(text: str) -> None:
    raise ValueError(text)


class Ends:
    def __repr__(self) -> NoReturn:
        raise SystemExit(3)


def boom_named(value: object) -> None:
    raise ValueError(type(value).__name__)


@with_client
async def test_results_of_a_map_have_the_order_of_its_items(client: AnyClient) -> None:
    assert await client.map(abs, [(n,) for n in range(-5, 5)]) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    assert await client.map(pow, ([n, 2] for n in range(3))) == [0, 1, 4]
    assert await client.map(abs, []) == []


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the groups of rows that were sent together, without single rows."""
    counts: list[int] = []
    hand_over = RowSource._submit_drawn

    def counted(source: RowSource, sink: Any, first: int, drawn: Sequence[Any]) -> None:
        hand_over(source, sink, first, drawn)
        if len(drawn) > 1:
            counts.append(len(drawn))

    monkeypatch.setattr(RowSource, "_submit_drawn", counted)
    return counts


@pytest.mark.parametrize("kind", [list, tuple, iter])
@with_client
async def test_items_of_a_list_are_sent_together_and_items_of_an_iterator_at_once(
    client: AnyClient, together: list[int], kind: Callable[[list[Any]], Any]
) -> None:
    large = b"1" * 100_000
    items = [b"x"] * 70 + [large] + [b"y"] * 3 + [large]
    assert await client.map(bytes.upper, kind([(item,) for item in items])) == [item.upper() for item in items]
    assert together == ([] if kind is iter else [64, 11])


@with_client
async def test_calls_that_use_stored_objects_travel_together_and_calls_that_store_one_after_it(
    client: AnyClient, scheduler: FakeScheduler, together: list[int]
) -> None:
    reference = await client.send_object(b"\1")
    items: list[tuple[Any, int]] = [(reference, number) for number in range(130)]
    assert await client.map(first_and, items) == list(range(1, 131))
    assert together == [64, 64, 2]
    together.clear()
    items[3] = b"\1" * (CARRIED_BYTES // 2), 3, b"x" * (CARRIED_BYTES // 2)
    assert await client.map(first_and, items[:8]) == list(range(1, 9))
    assert together == [4, 4]
    asked = {each.object_id for each in scheduler.of(ObjectInstruction)}
    assert asked.issuperset(task.object_ids for task in scheduler.of(Task))


@pytest.mark.parametrize("run", [Client.map, lambda *call: sorted(Client.map_unordered(*call))])
def test_an_object_that_an_iterator_stores_is_sent_before_the_row_that_uses_it(
    client: Client, run: Callable[..., list[int]]
) -> None:
    may_go_on = threading.Event()

    def items() -> Iterator[tuple[Any, int]]:
        client._core.link._put(may_go_on.wait)  # type: ignore[arg-type]
        yield b"\1", 0
        yield client.send_object(b"\1"), 1
        may_go_on.set()

    assert run(client, first_and, items()) == [1, 2]


@pytest.mark.thorough
@with_client
async def test_a_map_may_have_more_items_than_its_window(client: AnyClient) -> None:
    count = 2 * MAP_WINDOW + 7
    assert await client.map(abs, ((n,) for n in range(count))) == list(range(count))


@with_client
async def test_a_map_takes_and_returns_large_values(client: AnyClient, scheduler: FakeScheduler) -> None:
    items = [(bytes([n]) * 30_000,) for n in range(10)]
    assert await client.map(bytes, items) == [item for (item,) in items]
    scheduler.wait_for(ObjectInstruction, 10, lambda instruction: instruction.kind == InstructionKind.DELETE)


def first_and(data: bytes, number: int, _ballast: bytes = b"") -> int:
    return data[0] + number


def objects_said(scheduler: FakeScheduler, least: int) -> list[ObjectInstruction]:
    """Return the stored objects that are larger than `least` bytes."""
    return [each for each in scheduler.of(ObjectInstruction) if size_of(each.frames) > least]


async def unordered(client: AnyClient, items: Any) -> list[int]:
    return sorted([each async for each in client.map_unordered(first_and, items)])


MAPS: list[Callable[[AnyClient, Any], Awaitable[list[int]]]] = [
    lambda client, items: client.map(first_and, items),
    lambda client, items: client.starmap(first_and, items, return_exceptions=True),
    unordered,
]


@pytest.mark.parametrize("run", MAPS)
@pytest.mark.parametrize("kind", [list, tuple])
@with_client
async def test_a_large_value_of_many_items_is_sent_once(
    client: AnyClient, scheduler: FakeScheduler, run: Callable[..., Any], kind: Callable[[Any], Any]
) -> None:
    data = b"\1" * 100_000
    assert await run(client, kind([(data, number) for number in range(100)])) == list(range(1, 101))
    (stored,) = objects_said(scheduler, 99_999)
    deleted = scheduler.wait_for(ObjectInstruction, where=lambda each: each.kind == InstructionKind.DELETE)
    assert [each.object_id for each in deleted] == [stored.object_id], "when the map is over"


@pytest.mark.parametrize("run", MAPS)
@with_client
async def test_a_generator_may_reuse_one_buffer_for_all_items(
    client: AnyClient, scheduler: FakeScheduler, run: Callable[..., Any]
) -> None:
    buffer = bytearray(100_000)

    def items() -> Iterator[tuple[Any, int]]:
        for number in range(10):
            buffer[0] = number
            yield buffer, number

    assert await run(client, items()) == list(range(0, 20, 2))
    assert [size_of(task.frames) > 99_999 for task in scheduler.of(Task)] == [True] * 10


@with_client
async def test_tasks_with_larger_arguments_travel_together_up_to_the_size_of_a_message(
    client: AnyClient, scheduler: FakeScheduler, together: list[int]
) -> None:
    items = [(bytes([number]) * 60_000, number) for number in range(20)]
    assert await client.map(first_and, items) == list(range(0, 40, 2))
    most = RANGE_BYTES // 60_000 + 1
    assert together == [most] * (20 // most) + [20 % most] * (20 % most > 1)
    assert objects_said(scheduler, 50_000) == []


@with_client
async def test_a_map_that_fails_keeps_none_of_its_large_values(client: AnyClient, scheduler: FakeScheduler) -> None:
    data = b"\1" * 100_000
    with pytest.raises(TypeError) as caught:
        await client.map(first_and, [(data, 1), (data, "x")])
    (stored,) = objects_said(scheduler, 99_999)
    scheduler.wait_for(ObjectInstruction, where=lambda each: each.kind == InstructionKind.DELETE)
    assert stored.object_id not in scheduler.objects
    assert caught.value.__traceback__ is not None


@pytest.mark.parametrize("bad", [3, "ab", {1: 2}, None])
@with_client
async def test_an_item_that_is_no_tuple_leaves_nothing_running(
    client: AnyClient, scheduler: FakeScheduler, bad: Any
) -> None:
    def items() -> Iterator[Any]:
        yield (1,)
        scheduler.wait_for(Task)
        yield bad

    scheduler.answers_tasks = False
    with pytest.raises(TypeError, match="item 1"):
        await client.map(abs, items())
    scheduler.wait_for(TaskCancel)


@with_client
async def test_an_item_that_does_not_fit_the_signature_is_a_type_error(client: AnyClient) -> None:
    with pytest.raises(TypeError):
        await client.map(only_keyword, [(1,)])


@with_client
async def test_the_first_failure_is_raised_and_the_rest_cancelled(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    mapping = asyncio.ensure_future(client.map(boom, [("a",), ("b",), ("c",)]))
    tasks = await asyncio.to_thread(scheduler.wait_for, Task, 3)
    scheduler.run(tasks[1])
    with pytest.raises(ValueError, match=r"^b$"):
        await mapping
    scheduler.wait_for(TaskCancel, 2)
    scheduler.answers_tasks = True
    assert await client.map(abs, [(-1,)]) == [1]


@with_client
async def test_a_timeout_of_a_map_cancels_its_tasks(client: AnyClient, scheduler: FakeScheduler) -> None:
    assert await client.submit(abs, -1) == 1  # it is connected
    scheduler.answers_tasks = False
    with pytest.raises(TimeoutError, match="0 of 2"):
        await client.map(abs, [(1,), (2,)], timeout=0.3)
    scheduler.wait_for(TaskCancel, 2)


@pytest.mark.parametrize(("kind", "said"), [(list, "0 of 100 results"), (iter, "0 of the first 4 ")])
@with_client
async def test_the_timeout_error_of_a_map_counts_the_items_beyond_the_window(
    client: AnyClient, scheduler: FakeScheduler, kind: Callable[[Any], Any], said: str
) -> None:
    scheduler.answers_tasks = False
    with pytest.raises(TimeoutError, match=said):
        await client.map(abs, kind([(1,)] * 100), timeout=0.1, window=4)


async def mapped(client: AnyClient, fn: Any, items: Any, **arguments: Any) -> list[Any]:
    return await client.map(fn, items, **arguments)


async def as_they_come(client: AnyClient, fn: Any, items: Any, **arguments: Any) -> list[Any]:
    return [each async for each in client.map_unordered(fn, items, **arguments)]


BOTH = pytest.mark.parametrize("run", [mapped, as_they_come])
INTERRUPTED: Any = object()


@BOTH
@pytest.mark.parametrize(
    ("bad", "arguments", "error"),
    [
        (("x",), {}, ValueError),
        (3, {}, TypeError),
        ((1, 2, 3), {}, TypeError),
        ((LOCK,), {}, SerializeObjectError),
        (("1",), {"timeout": 0.05}, TimeoutError),
        (INTERRUPTED, {}, KeyboardInterrupt),
    ],
)
@with_client
async def test_an_iterator_is_closed_when_its_map_fails(
    client: AnyClient,
    scheduler: FakeScheduler,
    run: Callable[..., Any],
    bad: Any,
    arguments: dict[str, Any],
    error: type[BaseException],
) -> None:
    scheduler.answers_tasks = "timeout" not in arguments

    def rows() -> Iterator[Any]:
        yield ("1",)
        if bad is INTERRUPTED:
            raise KeyboardInterrupt
        yield bad
        yield from itertools.repeat(("1",))

    items = ClosedItems(rows())
    with pytest.raises(error):
        await run(client, int, items, window=4, **arguments)
    assert items.is_closed


@with_client
async def test_an_iterator_that_raises_ends_its_map_with_its_exception(client: AnyClient) -> None:
    def items() -> Iterator[tuple[int]]:
        yield (1,)
        raise LookupError("no more of these")

    for run in (mapped, as_they_come):
        with pytest.raises(LookupError, match="no more of these"):
            await run(client, abs, items())


@pytest.fixture
def long_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send as many rows together as the scheduler accepts, as if they were known to be short."""
    monkeypatch.setattr("scaler.client.maps.row_source.rows_together", lambda most, _mean_us, left: min(most, left))


class TestUnfitItems:
    """An item that cannot be sent fails alone, with its number."""

    ITEMS: ClassVar[list[Any]] = [(b"a",), (b"b",), (LOCK,), (b"d",), (b"e",)]

    @BOTH
    @pytest.mark.parametrize("kind", [list, iter])
    @with_client
    async def test_an_item_that_cannot_be_pickled(
        self, client: AnyClient, run: Callable[..., Any], kind: Callable[[Any], Any]
    ) -> None:
        found = await run(client, len, kind(self.ITEMS), return_exceptions=True)
        errors = [each for each in found if each != 1]
        assert found.count(1) == 4
        assert found.index(errors[0]) == 2 or run is as_they_come
        assert isinstance(errors[0], SerializeObjectError)
        assert str(errors[0]).startswith("item 2 of the map: len: argument 1")
        with pytest.raises(SerializeObjectError, match=r"^item 2 of the map: len: argument 1"):
            await run(client, len, kind(self.ITEMS))

    @BOTH
    @pytest.mark.parametrize("rows_most", [1, 64])
    @pytest.mark.parametrize("kind", [list, iter])
    @pytest.mark.usefixtures("long_ranges")
    def test_an_item_above_the_limit_that_arrives_with_the_hello(
        self, face: Face, run: Callable[..., Any], kind: Callable[[Any], Any], rows_most: int
    ) -> None:
        items = [(bytes(60_000),)] * 3 + [(bytes(100_001),)] + [(bytes(60_000),)] * 3

        async def test(client: AnyClient) -> None:
            link_of(client)._work.rows_most = rows_most
            running = asyncio.ensure_future(run(client, len, kind(items), return_exceptions=True))
            await asyncio.to_thread(scheduler.wait_for, ClientHello)
            await asyncio.to_thread(wait_until, lambda: len(link_of(client)._work._tasks) > 0, "they are submitted")
            scheduler.answers_hellos = True
            own = (scheduler.scheduler_id, 1, "0")
            scheduler.say(HelloReply(1, "", *own, value_bytes=scheduler.value_bytes, rows=rows_most))
            found = await running
            (error,) = [each for each in found if each != 60_000]
            assert len(found) == 7
            assert found.index(error) == 3 or run is as_they_come
            assert isinstance(error, ObjectTooLargeError)
            assert str(error).startswith("item 3 of the map")

        with FakeScheduler(answers_hellos=False, value_bytes=100_000) as scheduler:
            user(face, scheduler.address)(test)

    @BOTH
    @pytest.mark.parametrize("rows_most", [1, 64])
    @pytest.mark.usefixtures("long_ranges")
    @with_client
    async def test_an_item_that_cannot_be_written(
        self, client: AnyClient, run: Callable[..., Any], rows_most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert await client.submit(len, b"") == 0
        link_of(client)._work.rows_most = rows_most
        items = [(bytes(2),)] * 3 + [(b"bad",)] + [(bytes(2),)] * 3

        def refusing(function: Callable[..., Any], position: int) -> Callable[..., Any]:
            def refuse(*arguments: Any) -> Any:
                items = arguments[position] if isinstance(arguments[position], (list, tuple)) else [arguments[position]]
                if any(type(item) is Task and b"bad" in item.payload for item in items):
                    raise TypeError("it is bad")
                return function(*arguments)

            return refuse

        monkeypatch.setattr(pipe, "encode_message", refusing(pipe.encode_message, 1))
        monkeypatch.setattr(pipe, "check_item", refusing(pipe.check_item, 1))
        found = await run(client, len, items, return_exceptions=True)
        (error,) = [each for each in found if each != 2]
        assert len(found) == 7
        assert found.index(error) == 3 or run is as_they_come
        assert str(error).startswith("item 3 of the map")
        assert "this call cannot be sent to the scheduler" in str(error)


@with_client
async def test_an_interrupt_of_a_map_cancels_its_tasks(client: AnyClient, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    def items() -> Any:
        yield (1,)
        scheduler.wait_for(Task)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await client.map(abs, items())
    scheduler.wait_for(TaskCancel)


@with_client
async def test_a_slow_generator_does_not_delay_tasks(client: AnyClient, scheduler: FakeScheduler) -> None:
    def items() -> Any:
        for n in range(3):
            yield (n,)
            scheduler.wait_for(Task, n + 1)

    assert await client.map(abs, items()) == [0, 1, 2]


@with_client
async def test_progress_of_a_map_is_shown(client: AnyClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert await client.map(abs, [(-1,), (2,)], progress=True) == [1, 2]
    assert "2/2 100%" in capsys.readouterr().err


class TestReturnExceptions:
    @with_client
    async def test_a_failure_is_the_result_of_its_item_and_other_items_continue(self, client: AnyClient) -> None:
        results = await client.map(boom, [("a",), ("b",)], return_exceptions=True)
        assert [(type(result), str(result)) for result in results] == [(ValueError, "a"), (ValueError, "b")]

    @with_client
    async def test_the_error_of_a_map_names_its_item(self, client: AnyClient) -> None:
        with pytest.raises(ValueError, match="bad") as raised:
            await client.map(boom, [("bad" + 100 * "x",)])
        assert "boom('badxx" in str(raised.value.__cause__)
        assert "(item 0 of the map)" in str(raised.value.__cause__)
        assert len(str(raised.value.__cause__).splitlines()[2]) < 120

    @with_client
    async def test_the_repr_of_an_argument_is_not_called_when_its_task_fails(self, client: AnyClient) -> None:
        with pytest.raises(ValueError, match="Ends") as raised:
            await client.map(boom_named, [(Ends(),)])
        assert "boom_named(<Ends object>) (item 0 of the map)" in str(raised.value.__cause__)

    @with_client
    async def test_the_error_for_an_item_of_a_generator_has_its_number(self, client: AnyClient) -> None:
        with pytest.raises(ValueError, match="bad") as raised:
            await client.map(boom, iter([("bad",)]))
        assert "boom (item 0 of the map)" in str(raised.value.__cause__)

    @with_client
    async def test_starmap_returns_the_results_of_map(self, client: AnyClient) -> None:
        assert await client.starmap(pow, [(2, 3)]) == [8]
        assert await client.options(priority=1).starmap(pow, [(2, 3)]) == [8]


@with_client
async def test_while_the_duration_of_a_row_is_unknown_few_rows_are_sent_before_the_first_result(
    client: AnyClient, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.submit(abs, 0)
    monkeypatch.setattr(map_run, "PROBE_SECONDS", 60)
    link = link_of(client)
    link._work.rows_most = 64
    scheduler.answers_tasks = False
    mapping = asyncio.ensure_future(client.map(abs, [(-row,) for row in range(600)]))
    first = (await asyncio.to_thread(scheduler.wait_for, Task, 1 + PROBE_ROWS))[1:]
    assert [task.rows for task in first] == [0] * PROBE_ROWS
    assert link.durations.known_us(first[0].function_id) == 0.0
    scheduler.run(first[0])
    rest = await asyncio.to_thread(scheduler.wait_for, Task, 1, lambda task: task.rows > 0)
    assert rest[0].task_id == rows.row_id(first[0].task_id, PROBE_ROWS), "what follows travels together"
    await client.clear()
    with pytest.raises(CANCELLED):
        await mapping


class TestFuturesAsArguments:
    @with_client
    async def test_rows_with_futures_travel_as_single_tasks(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        ended = client.submit(abs, -7)
        assert await ended == 7
        futures = [client.submit(abs, -n) for n in range(5)]
        items = [(future, 1) for future in futures]
        assert await client.map(pow, [*items, (ended, 1), (2, 3)]) == [0, 1, 2, 3, 4, 7, 8]
        assert [len(task.inputs) // 16 for task in scheduler.of(Task)[6:]] == [1] * 5 + [0] * 2, "the value is here"
        assert sorted([each async for each in client.map_unordered(sum, [([future, 1],) for future in futures])]) == [
            1,
            2,
            3,
            4,
            5,
        ]
        assert {task.rows for task in scheduler.of(Task) if task.inputs} == {0}

    @with_client
    async def test_a_task_that_an_iterator_submits_is_sent_before_the_row_that_needs_it(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        may_go_on = threading.Event()

        def items() -> Iterator[tuple[Any]]:
            link_of(client)._put(may_go_on.wait)
            yield (-1,)
            yield (client.submit(abs, -2),)
            may_go_on.set()

        assert await client.map(abs, items()) == [1, 2]
        needed, row = scheduler.of(Task)[-2:]
        assert row.inputs == needed.task_id

    @with_client
    async def test_a_failed_argument_fails_its_row_and_is_named(self, client: AnyClient) -> None:
        failing, fine = client.submit(boom, "no such row"), client.submit(abs, -2)
        failed, value = await client.map(abs, [(failing,), (fine,)], return_exceptions=True)
        assert (str(failed), value) == ("no such row", 2)
        name = f"task boom ({failing.task_id.hex()[-8:]}), whose result is argument 1 of task abs(<"
        cause = str(failed.__cause__)
        assert name in cause
        assert "(item 0 of the map):" in cause

    @with_client
    async def test_a_cancelled_argument_cancels_its_row(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        scheduler.answers_tasks = False
        future = client.submit(abs, -1)
        future.cancel()
        scheduler.wait_for(TaskCancel)
        scheduler.answers_tasks = True
        with pytest.raises(CANCELLED, match=r"task abs \(.*\), whose result is argument 1 of task abs.* \(item 0"):
            await client.map(abs, [(future,)])
