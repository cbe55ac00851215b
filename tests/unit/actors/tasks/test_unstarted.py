"""Tasks that certainly were not started: known once, and so many of them."""

from __future__ import annotations

from scaler.actors.tasks.unstarted import KNOWN_MOST, Unstarted
from scaler.ids import TaskId


def numbered(number: int) -> TaskId:
    return TaskId(number.to_bytes(16, "big"))


def test_a_task_is_known_until_it_is_said_again() -> None:
    unstarted = Unstarted()
    unstarted.add(numbered(1))
    assert not unstarted.take(numbered(2))
    assert unstarted.take(numbered(1))
    assert not unstarted.take(numbered(1)), "it may have been started meanwhile"


def test_only_the_last_ones_are_known() -> None:
    unstarted = Unstarted()
    for number in range(KNOWN_MOST + 1):
        unstarted.add(numbered(number))
    assert not unstarted.take(numbered(0))
    assert unstarted.take(numbered(1))
    assert unstarted.take(numbered(KNOWN_MOST))
