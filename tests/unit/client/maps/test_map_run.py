from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, NoReturn

import pytest

from scaler.client import Client, large_values
from scaler.client.calls.job_names import MAP_WINDOW
from scaler.client.maps import map_run
from scaler.client.maps.map_run import PROBE_ROWS
from scaler.client.maps.row_source import RowSource
from scaler.config import ConfigError
from scaler.pickling.serialization import CARRIED_BYTES, size_of
from scaler.wire.messages import rows
from scaler.wire.messages.client import (
    Task,
    TaskCancel,
)
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectRequest
from scaler.wire.messages.rows import RANGE_BYTES
from tests.support.fake_scheduler import FakeScheduler


def only_keyword(a: int, *, b: int) -> int:
    return a + b


def boom(text: str) -> None:
    raise ValueError(text)


class Ends:
    def __repr__(self) -> NoReturn:
        raise SystemExit(3)


def boom_named(value: object) -> None:
    raise ValueError(type(value).__name__)


def test_results_of_a_map_have_the_order_of_its_items(client: Client) -> None:
    assert client.map(abs, [(n,) for n in range(-5, 5)]) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    assert client.map(pow, ([n, 2] for n in range(3))) == [0, 1, 4]
    assert client.map(abs, []) == []


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
def test_items_of_a_list_are_sent_together_and_items_of_an_iterator_at_once(
    client: Client, together: list[int], kind: Callable[[list[Any]], Any]
) -> None:
    large = b"1" * 100_000
    items = [b"x"] * 70 + [large] + [b"y"] * 3 + [large]
    assert client.map(bytes.upper, kind([(item,) for item in items])) == [item.upper() for item in items]
    assert together == ([] if kind is iter else [64, 11])


def test_calls_that_use_stored_objects_travel_together_and_calls_that_store_one_after_it(
    client: Client, scheduler: FakeScheduler, together: list[int]
) -> None:
    reference = client.send_object(b"\1")
    items: list[tuple[Any, int]] = [(reference, number) for number in range(130)]
    assert client.map(first_and, items) == list(range(1, 131))
    assert together == [64, 64, 2]
    together.clear()
    items[3] = b"\1" * (CARRIED_BYTES // 2), 3, b"x" * (CARRIED_BYTES // 2)
    assert client.map(first_and, items[:8]) == list(range(1, 9))
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
def test_a_map_may_have_more_items_than_its_window(client: Client) -> None:
    count = 2 * MAP_WINDOW + 7
    assert client.map(abs, ((n,) for n in range(count))) == list(range(count))


def test_a_map_takes_and_returns_large_values(client: Client, scheduler: FakeScheduler) -> None:
    items = [(bytes([n]) * 30_000,) for n in range(10)]
    assert client.map(bytes, items) == [item for (item,) in items]
    scheduler.wait_for(ObjectInstruction, 10, lambda instruction: instruction.kind == InstructionKind.DELETE)


def first_and(data: bytes, number: int, _ballast: bytes = b"") -> int:
    return data[0] + number


def objects_said(scheduler: FakeScheduler, least: int) -> list[ObjectInstruction]:
    """Return the stored objects that are larger than `least` bytes."""
    return [each for each in scheduler.of(ObjectInstruction) if size_of(each.frames) > least]


MAPS = [
    lambda client, items: client.map(first_and, items),
    lambda client, items: client.starmap(first_and, items, return_exceptions=True),
    lambda client, items: sorted(client.map_unordered(first_and, items)),
]


@pytest.mark.parametrize("run", MAPS)
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_large_value_of_many_items_is_sent_once(
    client: Client, scheduler: FakeScheduler, run: Callable[[Client, Any], list[int]], kind: Callable[[Any], Any]
) -> None:
    data = b"\1" * 100_000
    assert run(client, kind([(data, number) for number in range(100)])) == list(range(1, 101))
    (stored,) = objects_said(scheduler, 99_999)
    deleted = scheduler.wait_for(ObjectInstruction, where=lambda each: each.kind == InstructionKind.DELETE)
    assert [each.object_id for each in deleted] == [stored.object_id], "when the map is over"


@pytest.mark.parametrize("run", MAPS)
def test_a_generator_may_reuse_one_buffer_for_all_items(
    client: Client, scheduler: FakeScheduler, run: Callable[[Client, Any], list[int]]
) -> None:
    buffer = bytearray(100_000)

    def items() -> Iterator[tuple[Any, int]]:
        for number in range(10):
            buffer[0] = number
            yield buffer, number

    assert run(client, items()) == list(range(0, 20, 2))
    assert [size_of(task.frames) > 99_999 for task in scheduler.of(Task)] == [True] * 10


def test_tasks_with_larger_arguments_travel_together_up_to_the_size_of_a_message(
    client: Client, scheduler: FakeScheduler, together: list[int]
) -> None:
    items = [(bytes([number]) * 60_000, number) for number in range(20)]
    assert client.map(first_and, items) == list(range(0, 40, 2))
    most = RANGE_BYTES // 60_000 + 1
    assert together == [most] * (20 // most) + [20 % most] * (20 % most > 1)
    assert objects_said(scheduler, 50_000) == []


def test_a_map_that_fails_keeps_none_of_its_large_values(client: Client, scheduler: FakeScheduler) -> None:
    data = b"\1" * 100_000
    with pytest.raises(TypeError) as caught:
        client.map(first_and, [(data, 1), (data, "x")])
    (stored,) = objects_said(scheduler, 99_999)
    scheduler.wait_for(ObjectInstruction, where=lambda each: each.kind == InstructionKind.DELETE)
    assert stored.object_id not in scheduler.objects
    assert caught.value.__traceback__ is not None


@pytest.mark.parametrize("bad", [3, "ab", {1: 2}, None])
def test_an_item_that_is_no_tuple_leaves_nothing_running(client: Client, scheduler: FakeScheduler, bad: Any) -> None:
    def items() -> Iterator[Any]:
        yield (1,)
        scheduler.wait_for(Task)
        yield bad

    scheduler.answers_tasks = False
    with pytest.raises(TypeError, match="item 1"):
        client.map(abs, items())
    scheduler.wait_for(TaskCancel)


def test_an_item_that_does_not_fit_the_signature_is_a_type_error(client: Client) -> None:
    with pytest.raises(TypeError):
        client.map(only_keyword, [(1,)])


def test_the_first_failure_is_raised_and_the_rest_cancelled(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    errors: list[BaseException] = []

    def run() -> None:
        try:
            client.map(boom, [("a",), ("b",), ("c",)])
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    tasks = scheduler.wait_for(Task, 3)
    scheduler.run(tasks[1])
    thread.join()
    assert str(errors[0]) == "b"
    scheduler.wait_for(TaskCancel, 2)
    scheduler.answers_tasks = True
    assert client.map(abs, [(-1,)]) == [1]


def test_a_timeout_of_a_map_cancels_its_tasks(client: Client, scheduler: FakeScheduler) -> None:
    assert client.submit(abs, -1).result(10) == 1  # it is connected
    scheduler.answers_tasks = False
    with pytest.raises(TimeoutError, match="0 of 2"):
        client.map(abs, [(1,), (2,)], timeout=0.3)
    scheduler.wait_for(TaskCancel, 2)


@pytest.mark.parametrize(
    ("items", "said"), [([(1,)] * 100, "0 of 100 results"), (iter([(1,)] * 9), "0 of the first 4 ")]
)
def test_the_timeout_error_of_a_map_counts_the_items_beyond_the_window(
    client: Client, scheduler: FakeScheduler, items: Any, said: str
) -> None:

    scheduler.answers_tasks = False
    with pytest.raises(TimeoutError, match=said):
        client.map(abs, items, timeout=0.1, window=4)


def test_an_interrupt_of_a_map_cancels_its_tasks(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False

    def items() -> Any:
        yield (1,)
        scheduler.wait_for(Task)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.map(abs, items())
    scheduler.wait_for(TaskCancel)


def test_a_slow_generator_does_not_delay_tasks(client: Client, scheduler: FakeScheduler) -> None:
    def items() -> Any:
        for n in range(3):
            yield (n,)
            scheduler.wait_for(Task, n + 1)

    assert client.map(abs, items()) == [0, 1, 2]


def test_progress_of_a_map_is_shown(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.map(abs, [(-1,), (2,)], progress=True) == [1, 2]
    assert "2/2 100%" in capsys.readouterr().err


class TestReturnExceptions:
    def test_a_failure_is_the_result_of_its_item_and_other_items_continue(self, client: Client) -> None:
        results = client.map(boom, [("a",), ("b",)], return_exceptions=True)
        assert [(type(result), str(result)) for result in results] == [(ValueError, "a"), (ValueError, "b")]

    def test_the_error_of_a_map_names_its_item(self, client: Client) -> None:
        with pytest.raises(ValueError, match="bad") as raised:
            client.map(boom, [("bad" + 100 * "x",)])
        assert "boom('badxx" in str(raised.value.__cause__)
        assert "(item 0 of the map)" in str(raised.value.__cause__)
        assert len(str(raised.value.__cause__).splitlines()[2]) < 120

    def test_the_repr_of_an_argument_is_not_called_when_its_task_fails(self, client: Client) -> None:
        with pytest.raises(ValueError, match="Ends") as raised:
            client.map(boom_named, [(Ends(),)])
        assert "boom_named(<Ends object>) (item 0 of the map)" in str(raised.value.__cause__)

    def test_the_error_for_an_item_of_a_generator_has_its_number(self, client: Client) -> None:
        with pytest.raises(ValueError, match="bad") as raised:
            client.map(boom, iter([("bad",)]))
        assert "boom (item 0 of the map)" in str(raised.value.__cause__)

    def test_starmap_returns_the_results_of_map(self, client: Client) -> None:
        assert client.starmap(pow, [(2, 3)]) == [8]
        assert client.options(priority=1).starmap(pow, [(2, 3)]) == [8]


class TestMapUnordered:
    def test_map_unordered_returns_each_result_once(self, client: Client) -> None:
        assert sorted(client.map_unordered(abs, ((-n,) for n in range(3000)))) == list(range(3000))
        assert list(client.map_unordered(abs, [])) == []

    def test_map_unordered_has_no_more_open_tasks_than_its_window(
        self, client: Client, scheduler: FakeScheduler
    ) -> None:
        taken = 0

        def items() -> Iterator[tuple[int]]:
            nonlocal taken
            for number in itertools.count():
                taken += 1
                yield (number,)

        results = client.map_unordered(abs, items(), window=5)
        assert [next(results) for _ in range(20)]
        assert taken <= 26
        results.close()  # type: ignore[attr-defined]  # a generator

    def test_large_results_wait_at_the_scheduler_for_a_slow_reader(
        self, client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(large_values, "UNREAD_BYTES", 1_000_000)
        results = client.map_unordered(bytes, ((300_000 + n,) for n in range(20)))
        first = next(results)
        scheduler.wait_until(lambda: len(scheduler.objects) >= 19 - 5)
        assert client.submit(abs, -1).result(10) == 1  # earlier requests have arrived
        assert len(scheduler.of(ObjectRequest)) <= 1 + 4
        rest = [next(results) for _ in range(9)]
        assert len(scheduler.of(ObjectRequest)) <= 10 + 4
        results.close()  # type: ignore[attr-defined]  # a generator
        assert len({len(first), *map(len, rest)}) == 10
        scheduler.wait_until(lambda: not [frames for frames in scheduler.objects.values() if size_of(frames) > 9999])
        assert list(map(len, client.map_unordered(bytes, [(300_000,)] * 20))) == [300_000] * 20

    def test_closing_map_unordered_cancels_the_remaining_tasks(self, client: Client, scheduler: FakeScheduler) -> None:
        scheduler.answers_tasks = False
        answering = threading.Thread(target=lambda: scheduler.run(scheduler.wait_for(Task, 2)[0]))
        answering.start()
        results = client.map_unordered(abs, [(1,), (2,)])
        assert next(results) == 1
        results.close()  # type: ignore[attr-defined]  # a generator
        answering.join()
        scheduler.wait_for(TaskCancel)

    def test_a_failure_is_raised_or_yielded(self, client: Client) -> None:
        with pytest.raises(ValueError, match="a"):
            list(client.map_unordered(boom, [("a",)]))
        assert [str(error) for error in client.map_unordered(boom, [("a",)], return_exceptions=True)] == ["a"]

    def test_an_item_that_is_no_tuple_is_a_type_error(self, client: Client) -> None:
        with pytest.raises(TypeError, match="item 1"):
            list(client.map_unordered(abs, [(1,), 2]))  # type: ignore[list-item]  # on purpose

    @pytest.mark.parametrize("bad", [0, -1, "x"])
    def test_a_bad_window_is_refused(self, client: Client, bad: Any) -> None:
        with pytest.raises(ConfigError, match="window"):
            client.map_unordered(abs, [], window=bad)

    def test_a_timeout_ends_map_unordered(self, client: Client, scheduler: FakeScheduler) -> None:
        scheduler.answers_tasks = False
        with pytest.raises(TimeoutError, match="0 of 1 results"):
            list(client.map_unordered(abs, [(1,)], timeout=0.1))


def test_while_the_duration_of_a_row_is_unknown_few_rows_are_sent_before_the_first_result(
    client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.submit(abs, 0).result()
    monkeypatch.setattr(map_run, "PROBE_SECONDS", 60)
    client._core.link._work.rows_most = 64
    scheduler.answers_tasks = False

    def run() -> None:
        with pytest.raises(CancelledError):
            client.map(abs, [(-row,) for row in range(600)])

    mapper = threading.Thread(target=run)
    mapper.start()
    first = scheduler.wait_for(Task, 1 + PROBE_ROWS)[1:]
    assert [task.rows for task in first] == [0] * PROBE_ROWS
    assert client._core.link.durations.known_us(first[0].function_id) == 0.0
    scheduler.run(first[0])
    rest = scheduler.wait_for(Task, where=lambda task: task.rows > 0)
    assert rest[0].task_id == rows.row_id(first[0].task_id, PROBE_ROWS), "what follows travels together"
    client.clear()
    mapper.join(10)
    assert not mapper.is_alive()


class TestFuturesAsArguments:
    def test_rows_with_futures_travel_as_single_tasks(self, client: Client, scheduler: FakeScheduler) -> None:
        ended = client.submit(abs, -7)
        assert ended.result(10) == 7
        futures = [client.submit(abs, -n) for n in range(5)]
        items = [(future, 1) for future in futures]
        assert client.map(pow, [*items, (ended, 1), (2, 3)]) == [0, 1, 2, 3, 4, 7, 8]
        assert [len(task.inputs) // 16 for task in scheduler.of(Task)[6:]] == [1] * 5 + [0] * 2, "the value is here"
        assert sorted(client.map_unordered(sum, [([future, 1],) for future in futures])) == [1, 2, 3, 4, 5]
        assert {task.rows for task in scheduler.of(Task) if task.inputs} == {0}

    def test_a_task_that_an_iterator_submits_is_sent_before_the_row_that_needs_it(
        self, client: Client, scheduler: FakeScheduler
    ) -> None:
        may_go_on = threading.Event()

        def items() -> Iterator[tuple[Any]]:
            client._core.link._put(may_go_on.wait)  # type: ignore[arg-type]
            yield (-1,)
            yield (client.submit(abs, -2),)
            may_go_on.set()

        assert client.map(abs, items()) == [1, 2]
        needed, row = scheduler.of(Task)[-2:]
        assert row.inputs == needed.task_id

    def test_a_failed_argument_fails_its_row_and_is_named(self, client: Client) -> None:
        failing, fine = client.submit(boom, "no such row"), client.submit(abs, -2)
        failed, value = client.map(abs, [(failing,), (fine,)], return_exceptions=True)
        assert (str(failed), value) == ("no such row", 2)
        name = f"task boom ({failing.task_id.hex()[-8:]}), whose result is argument 1 of task abs(<"
        cause = str(failed.__cause__)
        assert name in cause
        assert "(item 0 of the map):" in cause

    def test_a_cancelled_argument_cancels_its_row(self, client: Client, scheduler: FakeScheduler) -> None:
        scheduler.answers_tasks = False
        future = client.submit(abs, -1)
        future.cancel()
        scheduler.wait_for(TaskCancel)
        scheduler.answers_tasks = True
        with pytest.raises(CancelledError, match=r"task abs \(.*\), whose result is argument 1 of task abs.* \(item 0"):
            client.map(abs, [(future,)])
