from __future__ import annotations

import pickle

import pytest

from scaler.client import ObjectReference
from scaler.client.calls.client_pickling import in_a_task_for
from scaler.client.object_reference import NestedReferenceError, check_stored
from scaler.errors import MissingObjects
from scaler.ids import ObjectId

ONE, TWO = ObjectId(b"1" * 16), ObjectId(b"2" * 16)


def test_references_are_equal_and_hashed_by_the_id_of_their_object() -> None:
    assert ObjectReference("a", ONE, 1) == ObjectReference("b", ONE, 2)
    assert ObjectReference("a", ONE, 1) != ObjectReference("a", TWO, 1)
    assert ObjectReference("a", ONE, 1) != ONE
    assert len({ObjectReference("a", ONE, 1), ObjectReference("b", ONE, 2)}) == 1


def test_a_reference_has_the_name_id_and_size_of_its_object() -> None:
    reference = ObjectReference("numbers", ONE, 7)
    assert (reference.name, reference.object_id, reference.size) == ("numbers", ONE, 7)
    assert "numbers" in repr(reference)


def test_a_nested_reference_cannot_be_pickled() -> None:
    with pytest.raises(NestedReferenceError, match=r"the reference 'numbers' is nested in another value, .* its as_is"):
        pickle.dumps([ObjectReference("numbers", ONE, 7)])


def test_a_reference_as_it_is_can_be_a_part_of_the_arguments_of_a_call() -> None:
    reference = ObjectReference("numbers", ONE, 7, {ONE})
    assert repr(reference.as_is()) == f"{reference!r}.as_is()"
    for value in (reference.as_is(), [reference.as_is()]):
        with pytest.raises(TypeError, match=r"as_is\(\) of the reference 'numbers' can only be part of the arguments"):
            pickle.dumps(value)
    held: list[ObjectReference] = []
    with in_a_task_for("", held):
        arrived = pickle.loads(pickle.dumps({"key": reference.as_is()}))["key"]
    assert held == [reference]
    assert type(arrived) is ObjectReference
    assert (arrived.name, arrived.object_id, arrived.size) == ("numbers", ONE, 7)


def test_a_reference_knows_whether_its_object_is_stored() -> None:
    stored = {ONE}
    check_stored(ObjectReference("a", ONE, 1, stored))
    check_stored(ObjectReference("a", TWO, 1))
    with pytest.raises(MissingObjects):
        check_stored(ObjectReference("a", TWO, 1, stored))


def test_a_reference_has_only_public_attributes_for_users() -> None:
    shown = [name for name in dir(ObjectReference("a", ONE, 1)) if not name.startswith("_")]
    assert shown == ["as_is", "name", "object_id", "size"]
