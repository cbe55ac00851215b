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


def test_a_failure_text_names_the_needed_task_and_keeps_the_first_one() -> None:
    once = failed_input_reason(TASK, b"too long\nwhere")
    assert (
        split_failed_input(once) == split_failed_input(failed_input_reason(OTHER, once)) == (TASK, b"too long\nwhere")
    )


def test_a_failure_text_without_a_needed_task_names_none() -> None:
    assert split_failed_input(b"the task was lost") == (b"", b"the task was lost")


def test_each_task_status_has_its_own_outcome_name() -> None:
    assert set(OUTCOMES) == set(TaskStatus)
    assert len(set(OUTCOMES.values())) == len(TaskStatus)


def test_outcomes_other_than_success_and_cancelled_are_failures() -> None:
    assert NOT_FOUND in FAILURES
    assert set(OUTCOMES.values()) == FAILURES | {SUCCESS, CANCELED}
