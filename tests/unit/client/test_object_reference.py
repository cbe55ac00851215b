from __future__ import annotations

import pickle

import pytest

from scaler.client import ObjectReference
from scaler.client.object_reference import check_stored
from scaler.errors import MissingObjects
from scaler.ids import ObjectId

ONE, TWO = ObjectId(b"1" * 16), ObjectId(b"2" * 16)


def test_equality_and_hash_are_those_of_the_id() -> None:
    assert ObjectReference("a", ONE, 1) == ObjectReference("b", ONE, 2)
    assert ObjectReference("a", ONE, 1) != ObjectReference("a", TWO, 1)
    assert ObjectReference("a", ONE, 1) != ONE
    assert len({ObjectReference("a", ONE, 1), ObjectReference("b", ONE, 2)}) == 1


def test_it_says_what_it_is() -> None:
    reference = ObjectReference("numbers", ONE, 7)
    assert (reference.name, reference.object_id, reference.size) == ("numbers", ONE, 7)
    assert "numbers" in repr(reference)


def test_it_does_not_travel() -> None:
    with pytest.raises(TypeError, match="argument of its own"):
        pickle.dumps([ObjectReference("numbers", ONE, 7)])


def test_it_knows_whether_its_object_is_stored() -> None:
    stored = {ONE}
    check_stored(ObjectReference("a", ONE, 1, stored))
    check_stored(ObjectReference("a", TWO, 1))
    with pytest.raises(MissingObjects):
        check_stored(ObjectReference("a", TWO, 1, stored))


def test_a_user_sees_only_what_is_for_users() -> None:
    shown = [name for name in dir(ObjectReference("a", ONE, 1)) if not name.startswith("_")]
    assert shown == ["name", "object_id", "size"]
