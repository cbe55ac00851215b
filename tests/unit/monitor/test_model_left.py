from __future__ import annotations

from scaler.monitor.model_left import Left
from tests.support.monitored import function


def test_what_is_open_takes_its_mean_duration_on_all_places() -> None:
    left = Left()
    left.see([function(waiting=190, running=10, mean_us=1_200_000), function("load", waiting=0, mean_us=0)], 2)
    assert left.seconds == 120
    assert left.text == "~2 min"


def test_it_is_not_said_while_a_duration_is_unknown_or_there_is_no_worker() -> None:
    left = Left()
    left.see([function(waiting=5, mean_us=0)], 2)
    assert left.text == ""
    left.see([function(waiting=5, mean_us=100)], 0)
    assert left.text == ""


def test_it_is_not_said_while_it_jumps() -> None:
    left = Left()
    for waiting, text in ((60, "~1 min"), (600, ""), (590, "~10 min"), (0, "")):
        left.see([function(waiting=waiting, mean_us=1_000_000)], 1)
        assert left.text == text


def test_a_few_tasks_of_unknown_duration_do_not_matter() -> None:
    left = Left()
    left.see([function(waiting=120, mean_us=1_000_000), function("new", waiting=6)], 2)
    assert left.text == "~1 min"
    left.see([function(waiting=120, mean_us=1_000_000), function("new", waiting=7)], 2)
    assert left.text == ""
