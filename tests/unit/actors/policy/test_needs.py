"""Resource requests of tasks, from options that a peer may have forged."""

from __future__ import annotations

from scaler.actors.policy.needs import ASKED_MOST, Needs, in_words, needs_of


def test_a_task_that_asks_for_nothing_has_no_needs() -> None:
    assert needs_of((), 0) is None
    assert needs_of((), 5) == Needs((), 5)


def test_equal_needs_are_one_kind_however_they_were_written() -> None:
    expected = Needs((("gpu", 1), ("memory", 7)), 0)
    assert needs_of((("memory", 7), ("gpu", 1)), 0) == expected
    assert needs_of((("gpu", 9), ("memory", 7), ("gpu", 1)), 0) == expected


def test_more_than_a_client_can_ask_for_is_cut() -> None:
    needs = needs_of(tuple((f"c{number:03}", 1) for number in range(ASKED_MOST + 5)), 0)
    assert needs is not None
    assert len(needs.amounts) == ASKED_MOST


def test_they_are_said_in_few_words() -> None:
    assert str(Needs((("gpu", 1), ("memory", 2_000), ("ssd", 0)))) == "gpu=1, memory=2,000, ssd"
    assert in_words(tuple((f"c{number}", 1) for number in range(10))).endswith("c7=1 and 2 more")
