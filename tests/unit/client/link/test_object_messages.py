"""How objects are said, and what a task takes of the scheduler's memory."""

from __future__ import annotations

import pytest

from scaler.client.calls.entry import Entry
from scaler.client.link.object_messages import as_sent, is_withdrawal, object_of_call, size_at_scheduler
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.shared_memory import SharedFrames, can_share
from scaler.wire.messages.client import GraphTaskCancel, Task, TaskCancel
from scaler.wire.messages.common import InstructionKind, ObjectInstruction

ID = b"i" * 16


def brought(frames: list[bytes]) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE_FOR_TASK, ObjectId(ID), "", frames)


def entry(*objects: ObjectInstruction) -> Entry:
    return Task(TaskId(ID), ObjectId(ID), b"arguments", b""), None, brought([]), objects, ()  # type: ignore[return-value]


def test_a_task_takes_its_payload_and_the_objects_that_it_brings() -> None:
    assert size_at_scheduler(entry()) == 9
    assert size_at_scheduler(entry(brought([b"12", b"3"]), brought([b"4"]))) == 13


@pytest.mark.skipif(not can_share(), reason="needs memory that other processes can open")
def test_objects_in_shared_memory_take_nothing_there() -> None:
    shared = brought(SharedFrames([b"x" * 100_000]))  # type: ignore[arg-type]
    assert as_sent(shared).frames == ()
    assert as_sent(shared).location
    assert size_at_scheduler(entry(shared)) == 9


def test_cancels_and_deletes_take_back() -> None:
    assert is_withdrawal(TaskCancel(TaskId(ID)))
    assert is_withdrawal(GraphTaskCancel(GraphId(ID)))
    assert is_withdrawal(ObjectInstruction(InstructionKind.DELETE, ObjectId(ID), "", ()))
    assert not is_withdrawal(brought([]))


def test_what_was_made_for_a_call_is_found_by_its_id() -> None:
    mine = brought([b"1"])
    assert object_of_call(ObjectId(ID), [entry(), entry(mine)], []) is mine
    assert object_of_call(ObjectId(b"o" * 16), [entry(mine)], []) is None
