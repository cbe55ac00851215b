from __future__ import annotations

from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import (
    CANCELED,
    FAILURES,
    NOT_FOUND,
    OUTCOMES,
    SUCCESS,
    failed_input_reason,
    split_failed_input,
)

TASK, OTHER = b"t" * 16, b"o" * 16


def test_a_sentence_names_the_task_that_is_needed_and_the_first_one_stays() -> None:
    once = failed_input_reason(TASK, b"too long\nwhere")
    assert (
        split_failed_input(once) == split_failed_input(failed_input_reason(OTHER, once)) == (TASK, b"too long\nwhere")
    )


def test_any_other_sentence_is_about_its_own_task() -> None:
    assert split_failed_input(b"the task was lost") == (b"", b"the task was lost")


def test_every_end_of_a_task_has_a_name_of_its_own() -> None:
    assert set(OUTCOMES) == set(TaskStatus)
    assert len(set(OUTCOMES.values())) == len(TaskStatus)


def test_all_that_neither_succeeded_nor_was_cancelled_has_failed() -> None:
    assert NOT_FOUND in FAILURES
    assert set(OUTCOMES.values()) == FAILURES | {SUCCESS, CANCELED}
