from __future__ import annotations

from scaler.monitor.model.remaining import Left
from tests.support.monitored import waiting

SECOND_US = 1_000_000


def test_what_is_open_takes_its_mean_duration_on_all_places() -> None:
    left = Left()
    left.see([waiting(190, running=10, places=2, mean_us=1_200_000), waiting(0)], 2)
    assert left.seconds == 120
    assert left.text == "~2 min"


def test_those_that_ask_for_the_same_share_what_there_is_of_it() -> None:
    """Four workers share one gpu: ten tasks of a second take ten, whatever the other workers do."""
    left = Left()
    left.see([waiting(40, places=8, mean_us=SECOND_US), waiting(10, "taken", "gpu=1", mean_us=SECOND_US)], 8)
    assert left.seconds == 10
    left = Left()
    left.see([waiting(200, places=8, mean_us=SECOND_US), waiting(10, "taken", "gpu=1", mean_us=SECOND_US)], 8)
    assert left.seconds == 210 / 8


def test_what_nobody_can_take_hides_nothing_and_is_named_if_it_is_all() -> None:
    left, never = Left(), waiting(40, "no worker can take it", "tpu=1", places=0)
    left.see([waiting(60, mean_us=SECOND_US), never], 1)
    assert left.text == "~1 min"
    left.see([waiting(0), never], 1)
    assert (left.text, left.seconds) == ("never, 40 need tpu=1", None)


def test_nodes_that_wait_for_others_are_not_guessed_at() -> None:
    left = Left()
    left.see([waiting(60, mean_us=SECOND_US), waiting(1000, "inputs", places=0)], 1)
    assert left.text == "~1 min"


def test_it_is_not_said_while_a_duration_is_unknown_or_there_is_no_worker() -> None:
    left = Left()
    left.see([waiting(5, places=2)], 2)
    assert left.text == ""
    left.see([waiting(5, "no worker", places=0, mean_us=100)], 0)
    assert left.text == ""


def test_it_is_not_said_while_it_jumps() -> None:
    left = Left()
    for number, text in ((60, "~1 min"), (600, ""), (590, "~10 min"), (0, "")):
        left.see([waiting(number, mean_us=SECOND_US)], 1)
        assert left.text == text


def test_a_few_tasks_of_unknown_duration_do_not_matter() -> None:
    left = Left()
    left.see([waiting(120, places=2, mean_us=SECOND_US), waiting(6, asks="gpu=1")], 2)
    assert left.text == "~1 min"
    left.see([waiting(120, places=2, mean_us=SECOND_US), waiting(7, asks="gpu=1")], 2)
    assert left.text == ""
