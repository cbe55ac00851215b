from __future__ import annotations

from scaler.monitor.model.remaining import RemainingWork, wanted_by_capabilities
from tests.support.monitored import waiting

SECOND_US = 1_000_000


def test_remaining_time_is_open_tasks_times_mean_duration_over_slots() -> None:
    left = RemainingWork()
    left.update([waiting(190, running=10, places=2, mean_us=1_200_000), waiting(0)], 2)
    assert left.seconds == 120
    assert left.text == "~2 min"


def test_tasks_that_request_a_capability_share_its_slots() -> None:
    """Four workers share one gpu: ten tasks of a second take ten, whatever the other workers do."""
    left = RemainingWork()
    left.update([waiting(40, places=8, mean_us=SECOND_US), waiting(10, "taken", "gpu=1", mean_us=SECOND_US)], 8)
    assert left.seconds == 10
    left = RemainingWork()
    left.update([waiting(200, places=8, mean_us=SECOND_US), waiting(10, "taken", "gpu=1", mean_us=SECOND_US)], 8)
    assert left.seconds == 210 / 8


def test_tasks_that_no_worker_can_take_are_named_only_if_no_others_remain() -> None:
    left, never = RemainingWork(), waiting(40, "no worker can take it", "tpu=1", places=0)
    left.update([waiting(60, mean_us=SECOND_US), never], 1)
    assert left.text == "~1 min"
    left.update([waiting(0), never], 1)
    assert (left.text, left.seconds) == ("never, 40 need tpu=1", None)


def test_nodes_that_wait_for_inputs_do_not_count_for_the_remaining_time() -> None:
    left = RemainingWork()
    left.update([waiting(60, mean_us=SECOND_US), waiting(1000, "inputs", places=0)], 1)
    assert left.text == "~1 min"


def test_the_remaining_time_is_not_shown_without_a_duration_or_a_worker() -> None:
    left = RemainingWork()
    left.update([waiting(5, places=2)], 2)
    assert left.text == ""
    left.update([waiting(5, "no worker", places=0, mean_us=100)], 0)
    assert left.text == ""


def test_the_remaining_time_is_not_shown_while_it_jumps() -> None:
    left = RemainingWork()
    for number, text in ((60, "~1 min"), (600, ""), (590, "~10 min"), (0, "")):
        left.update([waiting(number, mean_us=SECOND_US)], 1)
        assert left.text == text


def test_few_tasks_of_unknown_duration_do_not_hide_the_remaining_time() -> None:
    left = RemainingWork()
    left.update([waiting(120, places=2, mean_us=SECOND_US), waiting(6, asks="gpu=1")], 2)
    assert left.text == "~1 min"
    left.update([waiting(120, places=2, mean_us=SECOND_US), waiting(7, asks="gpu=1")], 2)
    assert left.text == ""


def test_no_workers_are_wanted_without_work_or_without_news() -> None:
    assert wanted_by_capabilities([]) == {}
    assert wanted_by_capabilities([waiting(0)]) == {"": 0}


def test_wanted_workers_finish_the_work_within_the_target() -> None:
    work = [waiting(900, running=100, mean_us=50_000)]
    assert wanted_by_capabilities(work) == {"": 10}
    assert wanted_by_capabilities(work, target_seconds=1) == {"": 50}


def test_at_most_one_worker_is_wanted_for_each_task() -> None:
    assert wanted_by_capabilities([waiting(2, running=1, mean_us=3_600_000_000)]) == {"": 3}


def test_one_worker_is_wanted_for_each_task_of_unknown_duration() -> None:
    assert wanted_by_capabilities([waiting(7, running=1)]) == {"": 8}


def test_no_workers_are_wanted_for_nodes_that_wait_for_inputs() -> None:
    assert wanted_by_capabilities([waiting(1), waiting(90, "inputs")]) == {"": 1}


def test_wanted_workers_are_counted_for_each_set_of_capabilities() -> None:
    groups = waiting(20, running=10, mean_us=1_000_000), waiting(6, asks="gpu=1", running=4, mean_us=1_000_000)
    work = [*groups, waiting(1, "no worker can take it", "licence=1")]
    assert wanted_by_capabilities(work) == {"": 6, "gpu=1": 2, "licence=1": 1}
