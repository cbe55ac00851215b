from __future__ import annotations

from scaler.wire.messages.needed import of_needed, without_needed

TASK, OTHER = b"t" * 16, b"o" * 16


def test_a_sentence_names_the_task_that_is_needed_and_the_first_one_stays() -> None:
    once = of_needed(TASK, b"too long\nwhere")
    assert without_needed(once) == without_needed(of_needed(OTHER, once)) == (TASK, b"too long\nwhere")


def test_any_other_sentence_is_about_its_own_task() -> None:
    assert without_needed(b"the task was lost") == (b"", b"the task was lost")
