"""Ranges: what a client does when the rows of one end one by one, and in a new session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler.client.link.open_work import OpenWork
from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId, TaskId, index_of
from scaler.wire.messages.client import Task, TaskCancel, TaskResult
from scaler.wire.messages.columns import ROWS_MOST
from scaler.wire.messages.common import LOST, InstructionKind, ObjectInstruction, ObjectResponse
from scaler.wire.messages.rows import pack, row_ids
from scaler.wire.session.too_large import NO_LIMIT

FIRST = TaskId(b"prefix--" + (10).to_bytes(8, "big"))
FUNCTION = ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(b"f" * 16), "f", (b"x",))
BLOCKS = [b"a", b"b", b"c", b"d"]


class Sink:
    def __init__(self) -> None:
        self.ended: list[TaskResult] = []
        self.deliver = self.refuse = self.store = self.ended.append

    def fail(self, make_error: Any) -> None:
        raise AssertionError(make_error())

    def notify(self) -> None:
        pass


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def work(sink: Sink) -> OpenWork:
    work = OpenWork()
    task = Task(FIRST, FUNCTION.object_id, pack(BLOCKS), b"", rows=4)
    work.add_range((task, sink, FUNCTION, (), ()))
    work.out.clear()
    return work


def result_of(row: int, value: bytes = b"value") -> TaskResult:
    return TaskResult(row_ids(FIRST, 4)[row], 0, value, 0)


def test_the_result_of_a_whole_range_ends_all_its_rows(work: OpenWork, sink: Sink) -> None:
    whole = TaskResult(FIRST, 0, pack(BLOCKS), 0, rows=4)
    work.on_results([whole])
    assert sink.ended == [whole]
    assert (work.n_open, work.window._n_sent, work.window._sent) == (0, 0, {})


def test_results_of_rows_that_are_not_open_take_no_memory(work: OpenWork, sink: Sink) -> None:
    work.on_results([result_of(0)])
    whole = [TaskResult(FIRST, 0, pack(BLOCKS), 0, rows=4)] * 100
    others = [TaskResult(TaskId(bytes(16)), 2, b"", 0, rows=ROWS_MOST)] * 100
    work.on_results([*whole, *others])
    assert [index_of(each.task_id) for each in sink.ended] == [10, 11, 12, 13]
    assert work.n_open == 0


@pytest.mark.parametrize("row", range(4))
def test_the_rows_of_a_range_that_ended_early_end_one_by_one(work: OpenWork, sink: Sink, row: int) -> None:
    assert (work.n_open, work.window._n_sent) == (4, 4)
    work.on_results([result_of(row)])
    assert sink.ended == [result_of(row)]
    assert (work.n_open, work.window._n_sent) == (3, 3)
    work.on_results([result_of(other) for other in range(4) if other != row])
    assert {each.task_id for each in sink.ended} == set(row_ids(FIRST, 4))
    assert (work.n_open, work.window._n_sent, work.window._sent) == (0, 0, {})


def test_a_second_result_of_a_row_is_ignored(work: OpenWork, sink: Sink) -> None:
    work.on_results([result_of(0)])
    work.on_results([result_of(0)])
    assert sink.ended == [result_of(0)]


def test_a_part_of_a_range_has_one_result_without_the_rows_that_ended_before(work: OpenWork, sink: Sink) -> None:
    part = TaskResult(row_ids(FIRST, 4)[1], 0, pack([b"x", b"y"]), 0, rows=2)
    work.on_results([result_of(0), part])
    assert sink.ended == [result_of(0), part]
    assert (work.n_open, work.window._n_sent) == (1, 1)
    work.on_results([TaskResult(FIRST, 0, pack([b"w", b"x", b"y", b"z"]), 0, rows=4)])
    assert [each.payload for each in sink.ended[2:]] == [b"z"]
    assert (work.n_open, work.window._n_sent, work.window._sent) == (0, 0, {})


def test_an_open_row_of_a_range_that_ended_early_is_asked_about(work: OpenWork) -> None:
    rows = row_ids(FIRST, 4)
    work.on_results([result_of(0), result_of(1)])
    oldest = work.oldest()
    assert oldest == FIRST
    question = work.request_about(oldest)
    assert question is not None
    assert question.task_id == rows[2]
    assert [work.is_open(row) for row in (*rows, TaskId(bytes(16)))] == [True, False, True, True, False]


def test_a_large_result_of_a_row_can_be_made_again_alone(work: OpenWork, sink: Sink) -> None:
    row = row_ids(FIRST, 4)[2]
    work.on_results([TaskResult(row, 0, b"", 20_000)])
    unread = work.large.unread.get(ObjectId(row))
    assert unread is not None
    assert (unread.call[0].task_id, unread.call[0].payload, unread.call[0].rows) == (row, BLOCKS[2], 0)
    assert sink.ended == [TaskResult(row, 0, b"", 20_000)]


def test_many_ranges_of_a_map_are_found_by_their_rows_and_forgotten(sink: Sink) -> None:
    work = OpenWork()
    firsts = row_ids(FIRST, 200)[::4]
    for first in firsts:
        work.add_range((Task(first, FUNCTION.object_id, pack(BLOCKS), b"", rows=4), sink, FUNCTION, (), ()))
    for row in row_ids(FIRST, 200):
        assert work._ranges.first_of(row) in firsts
        work.on_results([TaskResult(row, 0, b"value", 0)])
        assert work._ranges.first_of(row) is None or row[-1] % 4 != 1
    assert (len(sink.ended), work.n_open, work._ranges._by_map, work._ranges._ended) == (200, 0, {}, {})


def test_a_cancel_of_a_range_names_all_its_rows(work: OpenWork, sink: Sink) -> None:
    work.abandon(sink)
    assert work.out == [TaskCancel(FIRST, rows=4)]
    assert (work.n_open, work.window._n_sent) == (0, 0)


@pytest.mark.parametrize("in_transit", [None, []])
def test_rows_that_may_have_been_sent_are_resubmitted_as_single_tasks(
    work: OpenWork, sink: Sink, in_transit: list[Any] | None
) -> None:
    work.on_results([result_of(1)])
    later = TaskId(FIRST[:8] + (50).to_bytes(8, "big"))
    work.add_range((Task(later, FUNCTION.object_id, pack(BLOCKS), b"", rows=4), sink, FUNCTION, (), ()))
    work.start_over([], in_transit)
    sent = [item for item in work.out if type(item) is Task]
    alone = [(row_ids(FIRST, 4)[row], BLOCKS[row], 0) for row in (0, 2, 3)]
    assert sorted((item.task_id, item.payload, item.rows) for item in sent) == [*alone, (later, pack(BLOCKS), 4)]
    work.on_results([TaskResult(row_ids(FIRST, 4)[2], 0, pack([b"x", b"y"]), 0, rows=2)])
    assert [each.payload for each in sink.ended] == [b"value", b"x", b"y"]
    assert work.n_open == 5


def test_a_range_longer_than_the_window_of_the_scheduler_is_sent_as_single_tasks(sink: Sink) -> None:
    work = OpenWork()
    work.window.resize(3, 0)
    work.add_range((Task(FIRST, FUNCTION.object_id, pack(BLOCKS), b"", rows=4), sink, FUNCTION, (), ()))
    assert [item.rows for item in work.out if type(item) is Task] == [0, 0, 0]
    work.on_results([result_of(0)])
    assert [item.task_id for item in work.out if type(item) is Task] == row_ids(FIRST, 4)


@pytest.mark.parametrize("in_transit", [None, []])
def test_the_result_of_the_first_row_is_claimed_while_other_rows_are_open(
    work: OpenWork, sink: Sink, in_transit: list[Any] | None
) -> None:
    work.on_results([TaskResult(FIRST, 0, b"", 20_000)])
    work.start_over([], in_transit)
    sent = [(item.task_id, item.payload) for item in work.out if type(item) is Task]
    assert sent == [(FIRST, b""), *zip(row_ids(FIRST, 4)[1:], BLOCKS[1:], strict=True)]
    work.on_results([TaskResult(FIRST, 0, b"", 20_000), *map(result_of, (1, 2, 3))])
    assert [index_of(each.task_id) for each in sink.ended] == [10, 11, 12, 13]
    assert work.n_open == 0


def test_the_first_row_can_be_made_again_while_other_rows_are_open(work: OpenWork, sink: Sink) -> None:
    work.on_results([TaskResult(FIRST, 0, b"", 20_000), result_of(2)])
    work.large.on_objects([ObjectResponse(ObjectId(FIRST), LOST, (), reason="its host left")])
    again = Sink()
    work.large.request(ObjectId(FIRST), again)
    assert [(item.task_id, item.payload, item.rows) for item in work.out if type(item) is Task] == [(FIRST, b"a", 0)]
    work.on_results([result_of(1), result_of(3)])
    assert [index_of(each.task_id) for each in sink.ended] == [10, 12, 11, 13]
    assert work.n_open == 1
    work.on_results([result_of(0)])
    assert (work.n_open, work.window._n_sent, work.window._sent) == (0, 0, {})


class RefusedRows(Sink):
    def __init__(self) -> None:
        super().__init__()
        self.refused: list[TaskId] = []

    def fail_task(self, task_id: TaskId, make_error: Callable[[], BaseException]) -> None:
        assert isinstance(make_error(), ObjectTooLargeError)
        self.refused.append(task_id)

    def expect_rows(self) -> None: ...


@pytest.mark.parametrize("is_late", [False, True], ids=["the limit is known", "the limit arrives with the hello"])
@pytest.mark.parametrize("sizes", [(60, 60, 60, 60), (60, 101, 60, 102)])
def test_only_rows_above_the_limit_of_values_are_refused(sizes: tuple[int, ...], is_late: bool) -> None:
    sink, work = RefusedRows(), OpenWork()
    task = Task(FIRST, FUNCTION.object_id, pack(BLOCKS), b"", rows=4, frames=tuple(map(bytes, sizes)))
    limits = (NO_LIMIT, 100) if is_late else (100, 100)
    work.limit.n_bytes = limits[0]
    work.add_range((task, sink, FUNCTION, (), ()))
    if is_late:
        work.limit.n_bytes = limits[1]
        work.start_over()
    rows = row_ids(FIRST, 4)
    assert sink.refused == [row for row, size in zip(rows, sizes, strict=True) if size > 100]
    sent = [item for item in work.out if type(item) is Task]
    kept = [row for row in rows if row not in sink.refused]
    assert [each.task_id for each in sent] == (kept if sink.refused else [FIRST])
    assert [each.rows for each in sent] == ([0, 0] if sink.refused else [4])
    assert work.n_open == len(kept)
