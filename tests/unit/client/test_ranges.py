"""Ranges: what a client does when a scheduler has split one, or was replaced."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.client.link.open_work import OpenWork
from scaler.ids import ObjectId, TaskId, index_of
from scaler.wire.messages.client import Task, TaskCancel, TaskResult
from scaler.wire.messages.columns import ROWS_MOST
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.rows import pack, row_ids

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
    assert len(work._ranges.match([*whole, *others])) == 3
    work.on_results([*whole, *others])
    assert [index_of(each.task_id) for each in sink.ended] == [10, 11, 12, 13]
    assert work.n_open == 0


@pytest.mark.parametrize("row", range(4))
def test_the_result_of_a_single_row_splits_its_range(work: OpenWork, sink: Sink, row: int) -> None:
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


def test_rows_that_have_become_single_tasks_get_their_own_results(work: OpenWork, sink: Sink) -> None:
    work.on_results([result_of(0)])
    work.on_results([TaskResult(row_ids(FIRST, 4)[1], 0, pack([b"x", b"y"]), 0, rows=2)])
    assert [each.payload for each in sink.ended] == [b"value", b"x", b"y"]
    assert work.n_open == 1


def test_a_cancel_of_a_range_names_all_its_rows(work: OpenWork, sink: Sink) -> None:
    work.abandon(sink)
    assert work.out == [TaskCancel(FIRST, rows=4)]
    assert (work.n_open, work.window._n_sent) == (0, 0)


def test_a_range_is_resent_to_the_same_scheduler_and_resubmitted_as_single_tasks_to_another(work: OpenWork) -> None:
    work.start_over()
    assert [item.rows for item in work.out if type(item) is Task] == [4]
    work.start_over([], [])
    sent = [item for item in work.out if type(item) is Task]
    assert [(item.task_id, item.payload, item.rows) for item in sent] == [
        (task_id, block, 0) for task_id, block in zip(row_ids(FIRST, 4), BLOCKS, strict=True)
    ]


def test_a_range_longer_than_the_window_of_the_scheduler_is_sent_as_single_tasks(sink: Sink) -> None:
    work = OpenWork()
    work.window.resize(3, 0)
    work.add_range((Task(FIRST, FUNCTION.object_id, pack(BLOCKS), b"", rows=4), sink, FUNCTION, (), ()))
    assert [item.rows for item in work.out if type(item) is Task] == [0, 0, 0]
    work.on_results([result_of(0)])
    assert [item.task_id for item in work.out if type(item) is Task] == row_ids(FIRST, 4)
