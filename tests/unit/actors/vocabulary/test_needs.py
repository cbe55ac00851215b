"""Resource requests of tasks, from options that a peer may have forged."""

from __future__ import annotations

from scaler.actors.vocabulary.needs import ASKED_MOST, Needs, in_words, needs_of


def test_a_task_without_requests_has_no_needs() -> None:
    assert needs_of((), 0) is None
    assert needs_of((), 5) == Needs((), 5)


def test_equal_needs_are_equal_in_whatever_order_they_were_written() -> None:
    expected = Needs((("gpu", 1), ("memory", 7)), 0)
    assert needs_of((("memory", 7), ("gpu", 1)), 0) == expected
    assert needs_of((("gpu", 9), ("memory", 7), ("gpu", 1)), 0) == expected


def test_needs_above_the_limit_of_names_are_cut() -> None:
    needs = needs_of(tuple((f"c{number:03}", 1) for number in range(ASKED_MOST + 5)), 0)
    assert needs is not None
    assert len(needs.amounts) == ASKED_MOST


def test_needs_are_written_in_short_form() -> None:
    assert str(Needs((("gpu", 1), ("memory", 2_000), ("ssd", 0)))) == "gpu=1, memory=2,000, ssd"
    assert in_words(tuple((f"c{number}", 1) for number in range(10))).endswith("c7=1 and 2 more")
