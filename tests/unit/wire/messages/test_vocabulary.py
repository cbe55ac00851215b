from __future__ import annotations

from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import (
    CANCELED,
    FAILURES,
    NOT_FOUND,
    OUTCOMES,
    SUCCESS,
    of_needed,
    without_needed,
)

TASK, OTHER = b"t" * 16, b"o" * 16


def test_a_sentence_names_the_task_that_is_needed_and_the_first_one_stays() -> None:
    once = of_needed(TASK, b"too long\nwhere")
    assert without_needed(once) == without_needed(of_needed(OTHER, once)) == (TASK, b"too long\nwhere")


def test_any_other_sentence_is_about_its_own_task() -> None:
    assert without_needed(b"the task was lost") == (b"", b"the task was lost")


def test_every_end_of_a_task_has_a_name_of_its_own() -> None:
    assert set(OUTCOMES) == set(TaskStatus)
    assert len(set(OUTCOMES.values())) == len(TaskStatus)


def test_all_that_neither_succeeded_nor_was_cancelled_has_failed() -> None:
    assert NOT_FOUND in FAILURES
    assert set(OUTCOMES.values()) == FAILURES | {SUCCESS, CANCELED}
