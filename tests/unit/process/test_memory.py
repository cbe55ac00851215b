"""Memory is measured, and given back above the threshold."""

from __future__ import annotations

import sys

import psutil
import pytest

from scaler.process import memory
from scaler.process.memory import SpareMemory, give_back_memory, resident_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is given back")

PIECES, PIECE_BYTES = 2000, 50_000  # too small for a mapping of their own


def test_resident_memory_is_what_the_system_says() -> None:
    assert resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)


def test_memory_below_the_threshold_is_kept() -> None:
    assert not give_back_memory(resident_bytes() * 10)


@pytest.mark.skipif(memory._trim is None, reason="not glibc")
def test_memory_above_the_threshold_is_given_back() -> None:
    pieces = [bytearray(PIECE_BYTES) for _ in range(PIECES)]
    full_bytes = resident_bytes()
    pinned = pieces[-1]  # at the top of the heap: below it, nothing is given back by itself
    pieces.clear()
    assert resident_bytes() > full_bytes - PIECES * PIECE_BYTES / 2
    assert give_back_memory(0)
    assert resident_bytes() < full_bytes - PIECES * PIECE_BYTES / 2
    assert len(pinned) == PIECE_BYTES


def test_without_a_trim_nothing_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", None)
    assert not give_back_memory(0)


def test_a_system_that_does_not_say_has_no_resident_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_STATM", memory.Path("/nowhere"))
    assert resident_bytes() == 0


class System:
    """A process of so many bytes, some of which are free."""

    def __init__(self, resident: int, free: int) -> None:
        self.resident, self.free, self.trims = resident, free, 0

    def trim(self, _pad: int) -> int:
        self.trims += 1
        self.resident -= self.free
        self.free = 0
        return 1


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    system = System(100, 0)
    monkeypatch.setattr(memory, "resident_bytes", lambda: system.resident)
    monkeypatch.setattr(memory, "_trim", system.trim)
    return system


def test_spare_memory_is_given_back_only_above_the_beginning(system: System) -> None:
    spare = SpareMemory(step_bytes=40)
    system.resident = 140
    assert not spare.give_back()
    system.resident, system.free = 160, 50
    assert spare.give_back()
    assert system.resident == 110
    assert not spare.give_back()


def test_spare_memory_is_looked_for_less_and_less_often_while_there_is_none(system: System) -> None:
    spare = SpareMemory(step_bytes=40)
    system.resident = 1000
    tries = [spare.give_back() for _ in range(16)]
    assert [index for index, was_tried in enumerate(tries) if was_tried] == [0, 2, 6, 14]
    system.resident = 1041
    assert spare.give_back(), "much has happened since"
    system.resident, system.free = 1090, 30
    assert spare.give_back()
    assert spare.give_back(), "it was worth it"


def test_spare_memory_is_looked_for_when_much_less_is_held_than_at_the_last_try(system: System) -> None:
    spare = SpareMemory(step_bytes=40)
    system.resident = 1000
    assert [spare.give_back(held_bytes=800) for _ in range(15)].count(True) == 4
    assert not spare.give_back(held_bytes=770)
    system.free = 700
    assert spare.give_back(held_bytes=100)
    assert system.resident < 400
