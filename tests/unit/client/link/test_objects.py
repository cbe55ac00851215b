from __future__ import annotations

import pytest

from scaler.client.calls.entry import Entry
from scaler.client.calls.value_limit import ValueLimit
from scaler.client.link import objects as module
from scaler.client.link.objects import (
    KeptFunctions,
    Refusals,
    as_sent,
    object_of,
    size_at_scheduler,
)
from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.shared_memory import SharedFrames, can_share
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import InstructionKind, ObjectInstruction


def value(number: int, size: int, kind: int = InstructionKind.CREATE, name: str = "") -> ObjectInstruction:
    return ObjectInstruction(kind, ObjectId(bytes([number]) * 16), name, (bytes(size),))


@pytest.fixture
def refusals() -> Refusals:
    limit = ValueLimit("tcp://there:1")
    limit.n_bytes = 1000
    return Refusals(limit)


def reason(refusals: Refusals, *made: ObjectInstruction, object_ids: bytes = b"") -> str:
    make_error = refusals.reason(made, object_ids)
    if make_error is None:
        return ""
    error = make_error()
    assert isinstance(error, ObjectTooLargeError)
    assert error is not make_error()
    return str(error)


def test_a_value_up_to_the_limit_is_sent_and_a_larger_one_refused(refusals: Refusals) -> None:
    assert not reason(refusals, value(1, 1000), value(2, 1))
    assert reason(refusals, value(1, 10), value(2, 1001)).startswith(
        "an argument is too large: it has 1,001 bytes, and the scheduler at tcp://there:1 takes at most 1,000 bytes"
    )
    assert "the object 'table' is too large" in reason(refusals, value(1, 1001, name="table"))
    function = value(1, 1001, InstructionKind.CREATE_FUNCTION, "f")
    assert "the function f with the values that it holds is too large" in reason(refusals, function)


def test_calls_that_refer_to_a_refused_value_fail_until_it_is_forgotten(refusals: Refusals) -> None:
    make_error = refusals.limit.error
    refusals.add(value(1, 0).object_id, lambda: make_error("the object 'a'", 5))
    assert refusals
    named = value(2, 0).object_id + value(1, 0).object_id
    assert "the object 'a'" in reason(refusals, object_ids=named)
    assert "the object 'a'" in reason(refusals, value(1, 1))
    refusals.forget(value(1, 0).object_id)
    assert not refusals
    assert not reason(refusals, object_ids=named)


def die(refusals: Refusals, left: list[ObjectInstruction], unacknowledged: list[ObjectInstruction]) -> None:
    refusals.on_dead_scheduler(left, unacknowledged)


def test_a_value_whose_transfer_five_schedulers_did_not_survive_is_refused(refusals: Refusals) -> None:
    one, behind = value(1, 500, name="one"), value(2, 500)
    for _ in range(TRIES_MOST - 1):
        die(refusals, [one], [one, behind])
    assert not reason(refusals, one, behind)
    die(refusals, [one], [one, behind])
    assert reason(refusals, one).startswith(
        "the object 'one' is too large: it has 500 bytes, and the scheduler at tcp://there:1 has no room for it: the "
        "scheduler has ended 5 times during this transfer"
    )
    assert not reason(refusals, behind)


def test_the_end_of_a_scheduler_does_not_count_against_a_value_not_sent_to_it(refusals: Refusals) -> None:
    one = value(1, 500)
    for _ in range(3):
        die(refusals, [one], [one])
        for _ in range(3):
            die(refusals, [], [one])
    assert not reason(refusals, one)


def test_the_count_of_a_value_restarts_after_it_has_arrived(refusals: Refusals) -> None:
    one = value(1, 500)
    for _ in range(3):
        for _ in range(TRIES_MOST - 1):
            die(refusals, [one], [one])
        die(refusals, [], [])
    assert not reason(refusals, one)


def function(number: int, size_bytes: int = 1) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(bytes([number]) * 16), "", [bytes(size_bytes)])


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FUNCTIONS_MOST", 3)
    monkeypatch.setattr(module, "FUNCTIONS_BYTES_MOST", 100)


def test_kept_functions_are_limited_in_number() -> None:
    kept = KeptFunctions()
    for number in (1, 2, 3, 3):
        kept.keep(function(number))
    assert not kept.is_full()
    kept.keep(function(4))
    assert kept.is_full()
    assert kept.drop_unused({function(4).object_id}) == [function(number).object_id for number in (1, 2, 3)]
    assert list(kept.values()) == [function(4)]
    assert not kept.is_full()


def test_kept_functions_are_limited_in_bytes() -> None:
    kept = KeptFunctions()
    kept.keep(function(1, 60))
    kept.keep(function(1, 60))
    assert not kept.is_full()
    kept.keep(function(2, 60))
    assert kept.is_full()
    kept.drop_unused({function(2).object_id})
    assert not kept.is_full()
    kept.keep(function(3, 40))
    assert not kept.is_full()


def test_functions_in_use_are_kept_and_not_checked_again_soon() -> None:
    kept = KeptFunctions()
    for number in range(4):
        kept.keep(function(number, 30))
    assert kept.is_full()
    assert kept.drop_unused(set(kept)) == []
    kept.keep(function(5, 100))
    assert not kept.is_full()
    kept.keep(function(6, 21))
    assert kept.is_full()


ID = b"i" * 16


def brought(frames: list[bytes]) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE_FOR_TASK, ObjectId(ID), "", frames)


def entry(*objects: ObjectInstruction) -> Entry:
    return Task(TaskId(ID), ObjectId(ID), b"arguments", b""), None, brought([]), objects, ()  # type: ignore[return-value]


def test_the_size_of_a_task_is_its_payload_and_its_objects() -> None:
    assert size_at_scheduler(entry()) == 9
    assert size_at_scheduler(entry(brought([b"12", b"3"]), brought([b"4"]))) == 13


@pytest.mark.skipif(not can_share(), reason="needs memory that other processes can open")
def test_objects_in_shared_memory_do_not_count_for_the_size_of_a_task() -> None:
    shared = brought(SharedFrames([b"x" * 100_000]))  # type: ignore[arg-type]
    assert as_sent(shared).frames == ()
    assert as_sent(shared).location
    assert size_at_scheduler(entry(shared)) == 9


def test_an_object_of_a_call_is_found_by_its_id() -> None:
    mine = brought([b"1"])
    assert object_of(ObjectId(ID), [entry(), entry(mine)]) is mine
    assert object_of(ObjectId(b"o" * 16), [entry(mine)]) is None
