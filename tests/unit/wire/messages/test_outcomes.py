from __future__ import annotations

from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.outcomes import CANCELED, FAILURES, NOT_FOUND, OUTCOMES, SUCCESS


def test_every_end_of_a_task_has_a_name_of_its_own() -> None:
    assert set(OUTCOMES) == set(TaskStatus)
    assert len(set(OUTCOMES.values())) == len(TaskStatus)


def test_all_that_neither_succeeded_nor_was_cancelled_has_failed() -> None:
    assert NOT_FOUND in FAILURES
    assert set(OUTCOMES.values()) == FAILURES | {SUCCESS, CANCELED}
