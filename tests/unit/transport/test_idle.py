"""Idle: who is no peer's at two looks, without having been closed between, is hung up on."""

from __future__ import annotations

from scaler.transport.idle import Idle


def test_what_is_no_peers_at_two_looks_in_a_row_is_idle() -> None:
    idle = Idle()
    idle.open(5)
    idle.open(6)
    assert idle.look({6}.__contains__) == []
    assert idle.look({6}.__contains__) == [5]
    assert idle.look({6}.__contains__) == [], "it is about to be closed"


def test_what_became_a_peers_between_two_looks_is_not() -> None:
    idle = Idle()
    idle.open(5)
    assert idle.look({}.__contains__) == []
    assert idle.look({5}.__contains__) == []
    assert idle.look({}.__contains__) == []
    assert idle.look({}.__contains__) == [5]


def test_a_descriptor_that_is_used_again_is_a_new_connection() -> None:
    idle = Idle()
    idle.open(5)
    assert idle.look({}.__contains__) == []
    idle.close(5)
    idle.open(5)
    assert idle.look({}.__contains__) == []
    idle.close(5)
    assert idle.look({}.__contains__) == []
