"""What a refusal says."""

from __future__ import annotations

import pytest

from scaler.actors.policy.rules import Rules


@pytest.mark.parametrize(
    ("waiting", "workers", "said"),
    [
        (7, 2, "7 tasks wait, max_number_of_tasks_waiting is 7, and 2 workers are connected, and none of them has"),
        (1, 1, "1 task waits, max_number_of_tasks_waiting is 1, and 1 worker is connected, and it does not have"),
        (0, 0, "0 tasks wait, max_number_of_tasks_waiting is 0, and no worker is connected;"),
    ],
)
def test_a_refusal_says_what_was_found_and_what_to_do(waiting: int, workers: int, said: str) -> None:
    sentence = Rules(waiting).refusal(waiting, workers)
    assert said in sentence
    assert sentence.endswith("submit it again later, add workers, or raise that setting")


def test_a_task_that_makes_room_for_another_client_hears_so() -> None:
    sentence = Rules(1).refusal(1, 0, was_let_in=True)
    assert "it waited, and makes room for a client that has fewer, since 1 task waits" in sentence
