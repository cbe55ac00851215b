"""Which values are never sent: too large ones, and those of which schedulers die."""

from __future__ import annotations

import pytest

from scaler.client.calls.value_limit import ValueLimit
from scaler.client.link.refusals import Refusals
from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.shared_memory import SharedFrames, can_share
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


def test_a_value_that_fits_is_sent_and_one_byte_more_is_not(refusals: Refusals) -> None:
    assert not reason(refusals, value(1, 1000), value(2, 1))
    assert reason(refusals, value(1, 10), value(2, 1001)).startswith(
        "an argument is too large: it has 1,001 bytes, and the scheduler at tcp://there:1 takes at most 1,000 bytes"
    )
    assert "the object 'table' is too large" in reason(refusals, value(1, 1001, name="table"))
    function = value(1, 1001, InstructionKind.CREATE_FUNCTION, "f")
    assert "the function f with the values that it holds is too large" in reason(refusals, function)


@pytest.mark.skipif(not can_share(), reason="no shared memory")
def test_what_is_shared_as_a_location_is_only_too_large_for_those_who_ask_for_its_bytes(refusals: Refusals) -> None:
    shared = ObjectInstruction(InstructionKind.CREATE, ObjectId(b"s" * 16), "", SharedFrames([bytes(5000)]))
    assert not reason(refusals, shared)
    assert refusals.of_value(shared) is not None


def test_what_was_given_up_is_not_sent_whoever_refers_to_it_until_nobody_can(refusals: Refusals) -> None:
    make_error = refusals.limit.error
    refusals.add(value(1, 0).object_id, lambda: make_error("the object 'a'", 5))
    assert refusals
    named = value(2, 0).object_id + value(1, 0).object_id
    assert "the object 'a'" in reason(refusals, object_ids=named)
    assert "the object 'a'" in reason(refusals, value(1, 1))
    refusals.forget(value(1, 0).object_id)
    assert not refusals
    assert not reason(refusals, object_ids=named)


def die(refusals: Refusals, left: list[ObjectInstruction], unheard: list[ObjectInstruction]) -> None:
    refusals.on_dead_scheduler(left, unheard)


def test_a_value_that_was_on_its_way_to_five_schedulers_that_ended_is_given_up(refusals: Refusals) -> None:
    one, behind = value(1, 500, name="one"), value(2, 500)
    for _ in range(TRIES_MOST - 1):
        die(refusals, [one], [one, behind])
    assert not reason(refusals, one, behind)
    die(refusals, [one], [one, behind])
    assert reason(refusals, one).startswith(
        "the object 'one' is too large: it has 500 bytes, and the scheduler at tcp://there:1 has no room for it: it "
        "has ended 5 times while this was on its way there"
    )
    assert not reason(refusals, behind)


def test_the_end_of_a_scheduler_to_which_nothing_of_a_value_had_left_does_not_count(refusals: Refusals) -> None:
    one = value(1, 500)
    for _ in range(3):
        die(refusals, [one], [one])
        for _ in range(3):
            die(refusals, [], [one])
    assert not reason(refusals, one)


def test_what_has_arrived_since_then_begins_to_count_anew(refusals: Refusals) -> None:
    one = value(1, 500)
    for _ in range(3):
        for _ in range(TRIES_MOST - 1):
            die(refusals, [one], [one])
        die(refusals, [], [])
    assert not reason(refusals, one)
