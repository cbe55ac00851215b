from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from scaler.client.calls.entry import Call
from scaler.client.link.large_results import ResultState, UnreadResults
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, TaskStatus

TASK_ID = TaskId(b"t" * 16)
OBJECT_ID = ObjectId(b"t" * 16)
FUNCTION = ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(b"f" * 16), "f", [b"f"])


class Receiver:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def deliver(self, result: TaskResult) -> None:
        self.heard.append(("deliver", result))

    def refuse(self, result: TaskResult) -> None:
        self.heard.append(("refuse", result))

    def store(self, result: TaskResult) -> None:
        self.heard.append(("store", result))

    def receive_frames(self, object_id: ObjectId, frames: Any) -> None:
        raise AssertionError("frames come to whoever asked for them, and not by this way")

    def fail(self, make_error: Callable[[], BaseException]) -> None:
        self.heard.append(("fail", type(make_error())))

    def notify(self) -> None:
        self.heard.append("notify")


CALL: Call = (Task(TASK_ID, FUNCTION.object_id, b"arguments", b""), FUNCTION, (), ())


def result(status: int = 0, size: int = 0) -> TaskResult:
    return TaskResult(TASK_ID, status, b"", size)


@pytest.fixture
def unread() -> UnreadResults:
    results = UnreadResults(print)
    results.keep(result(size=8), CALL)
    return results


def test_each_loss_counts_once_and_a_result_that_arrives_again_is_stored(unread: UnreadResults) -> None:
    one = unread[OBJECT_ID]
    for times in (1, 2):
        assert (unread.is_stored(OBJECT_ID), unread.at_scheduler()) == (True, [one])
        assert unread.mark_lost({OBJECT_ID}) == [one]
        assert unread.mark_lost({OBJECT_ID}) == []
        assert (one.state, one.times_lost, unread.is_stored(OBJECT_ID)) == (ResultState.LOST, times, False)
        assert unread.in_state(ResultState.LOST) == [one]
        one.state = ResultState.RESUBMITTED
        unread.keep(result(size=8), CALL)
        assert unread[OBJECT_ID] is one
        assert (one.state, unread.in_state(ResultState.LOST)) == (ResultState.STORED, [])


def test_a_loss_counts_only_against_a_result_in_transfer(unread: UnreadResults) -> None:
    unread.mark_lost(set())
    assert (unread[OBJECT_ID].state, unread[OBJECT_ID].times_lost) == (ResultState.LOST, 0)


@pytest.mark.parametrize("asked_first", [True, False])
@pytest.mark.parametrize(("status", "way"), [(TaskStatus.SUCCESS, "deliver"), (TaskStatus.FAILED, "refuse")])
def test_a_small_outcome_is_kept_until_it_is_requested(
    unread: UnreadResults, asked_first: bool, status: int, way: str
) -> None:
    one, receiver, outcome = unread[OBJECT_ID], Receiver(), result(status)
    one.state = ResultState.RESUBMITTED
    if asked_first:
        one.ask(receiver)
    getattr(one, way)(outcome)
    one.notify()
    assert (OBJECT_ID in unread) != asked_first
    if not asked_first:
        one.ask(receiver)
    assert receiver.heard == [(way, outcome), "notify"]
    assert not unread


def test_all_receivers_of_a_lost_result_get_the_end_of_its_task(unread: UnreadResults) -> None:
    one, receivers = unread[OBJECT_ID], [Receiver() for _ in range(3)]
    for receiver in receivers:
        one.ask(receiver)
    one.store(result(size=9))
    for receiver in receivers:
        one.ask(receiver)
    one.fail(TimeoutError)
    for receiver in receivers:
        one.ask(receiver)
    one.deliver(result())
    ends = [("store", result(size=9)), ("fail", TimeoutError), ("deliver", result())]
    assert [receiver.heard for receiver in receivers] == [ends] * 3


def test_a_result_given_up_fails_each_receiver_until_it_arrives_after_all(unread: UnreadResults) -> None:
    one, first, second = unread[OBJECT_ID], Receiver(), Receiver()
    one.state = ResultState.LOST
    one.ask(first)
    one.end(TimeoutError)
    one.ask(second)
    assert first.heard == second.heard == [("fail", TimeoutError)]
    assert (one.state, unread.in_state(ResultState.LOST)) == (ResultState.UNREPEATABLE, [])
    unread.keep(result(size=8), CALL)
    assert (one.state, one.make_error) == (ResultState.STORED, None)


def test_a_receiver_that_has_failed_is_not_kept(unread: UnreadResults) -> None:
    one, receiver = unread[OBJECT_ID], Receiver()
    one.ask(receiver)
    one.fail(TimeoutError)
    known = weakref.ref(receiver)
    del receiver
    assert known() is None
    assert one.requested_by is None
    one.notify()


def test_results_requested_by_a_receiver_are_dropped_with_it(unread: UnreadResults) -> None:
    one, receiver = unread[OBJECT_ID], Receiver()
    assert unread.drop_requested_by(receiver) == []
    one.ask(receiver)
    one.fail(TimeoutError)
    assert unread.drop_requested_by(receiver) == [one]
    assert not unread
