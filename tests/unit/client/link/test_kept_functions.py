"""Which functions a client lets go, and when."""

from __future__ import annotations

import pytest

from scaler.client.link import kept_functions as module
from scaler.client.link.kept_functions import KeptFunctions
from scaler.ids import ObjectId
from scaler.wire.messages.common import InstructionKind, ObjectInstruction


def function(number: int, size_bytes: int = 1) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(bytes([number]) * 16), "", [bytes(size_bytes)])


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FUNCTIONS_MOST", 3)
    monkeypatch.setattr(module, "FUNCTIONS_BYTES_MOST", 100)


def test_too_many_are_full() -> None:
    kept = KeptFunctions()
    for number in (1, 2, 3, 3):
        kept.keep(function(number))
    assert not kept.is_full()
    kept.keep(function(4))
    assert kept.is_full()
    assert kept.drop_unused({function(4).object_id}) == [function(number).object_id for number in (1, 2, 3)]
    assert list(kept.values()) == [function(4)]
    assert not kept.is_full()


def test_too_large_ones_are_full() -> None:
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


def test_those_in_use_stay_however_many_and_are_not_looked_at_again_soon() -> None:
    kept = KeptFunctions()
    for number in range(4):
        kept.keep(function(number, 30))
    assert kept.is_full()
    assert kept.drop_unused(set(kept)) == []
    kept.keep(function(5, 100))
    assert not kept.is_full()
    kept.keep(function(6, 21))
    assert kept.is_full()
