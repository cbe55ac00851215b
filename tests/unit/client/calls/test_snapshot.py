"""Freezing: copies where something may change, and shared memory where it helps."""

from __future__ import annotations

import pytest

from scaler.client.calls.snapshot import freeze_for, frozen, shared
from scaler.shared_memory import OPEN_BLOCKS_MOST, SHARE_LEAST_BYTES, SHARING_VARIABLE, SharedFrames


def test_what_may_change_is_copied() -> None:
    changing = bytearray(b"before")
    frames = frozen([b"constant", changing, memoryview(changing)])
    changing[:] = b"after!"
    assert frames == [b"constant", b"before", b"before"]


def test_what_cannot_change_is_not_copied() -> None:
    constant = b"constant"
    view = memoryview(constant)
    frames = frozen([constant, view])
    assert frames[0] is constant
    assert frames[1] is view


def test_a_large_value_is_shared_as_it_is_now() -> None:
    changing = bytearray(SHARE_LEAST_BYTES)
    frames = shared([b"head", changing])
    changing[0] = 1
    assert type(frames) is SharedFrames
    assert [bytes(frame) for frame in frames] == [b"head", bytes(SHARE_LEAST_BYTES)]


def test_a_small_value_is_not_shared() -> None:
    assert type(shared([bytes(SHARE_LEAST_BYTES - 1)])) is list


def test_without_room_for_another_block_it_works_without() -> None:
    blocks = [SharedFrames([b"x"]) for _ in range(OPEN_BLOCKS_MOST)]
    assert shared([bytes(SHARE_LEAST_BYTES)]) == [bytes(SHARE_LEAST_BYTES)]
    assert len(blocks) == OPEN_BLOCKS_MOST


@pytest.mark.parametrize(
    ("address", "is_near"),
    [
        ("tcp://127.0.0.1:5000", True),
        ("tcp://localhost:5000", True),
        ("tcp://[::1]:5000", True),
        ("ipc:///tmp/scaler", True),
        ("tcp://10.1.2.3:5000", False),
        ("tcp://localhost.example.org:5000", False),
    ],
)
def test_memory_is_shared_with_a_scheduler_on_this_machine(address: str, is_near: bool) -> None:
    assert freeze_for(address) is (shared if is_near else frozen)


def test_memory_is_not_shared_when_that_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARING_VARIABLE, "0")
    assert freeze_for("tcp://127.0.0.1:5000") is frozen
