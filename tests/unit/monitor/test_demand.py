from __future__ import annotations

from scaler.monitor.demand import wanted_by_capabilities
from scaler.monitor.model import Model
from scaler.wire.messages.monitor import StateFunction
from tests.support.monitored import counts, function, news, scheduler


def model(waiting: int, running: int, *functions: StateFunction) -> Model:
    model = Model()
    model.take(news("scheduler", scheduler(waiting=waiting, running=running)), 1.0)
    model.take(news("functions", *functions), 1.0)
    return model


def test_nothing_is_wanted_without_work_or_without_news() -> None:
    assert wanted_by_capabilities(Model()) == {}
    assert wanted_by_capabilities(model(0, 0)) == {"": 0}


def test_work_is_to_be_done_within_the_target() -> None:
    state = model(900, 100, function(waiting=900, running=100, mean_us=50_000))
    assert wanted_by_capabilities(state) == {"": 10}
    assert wanted_by_capabilities(state, target_seconds=1) == {"": 50}


def test_there_is_at_most_one_worker_for_a_task() -> None:
    assert wanted_by_capabilities(model(2, 1, function(waiting=2, running=1, mean_us=3_600_000_000))) == {"": 3}


def test_a_task_of_unknown_length_wants_a_worker_of_its_own() -> None:
    assert wanted_by_capabilities(model(7, 1, function(waiting=7, running=1, mean_us=0))) == {"": 8}
    assert wanted_by_capabilities(model(7, 1)) == {"": 8}  # functions are not heard yet


def test_functions_add_up() -> None:
    functions = function(waiting=5, running=0, mean_us=0), function("short", waiting=1000, running=0, mean_us=10_000)
    assert wanted_by_capabilities(model(1005, 0, *functions)) == {"": 7}


def test_tasks_that_ask_for_something_are_counted_apart() -> None:
    state = Model()
    asked = counts(asked_waiting={"gpu=1": 6, "licence=1": 1}, asked_running={"gpu=1": 4}, asked_ms={"gpu=1": 1000})
    state.take(news("scheduler", scheduler(waiting=27, running=14), *asked), 1.0)
    second, other = function(waiting=26, running=14, mean_us=1_000_000), function(waiting=1, function=b"other")
    state.take(news("functions", second, other), 1.0)
    assert wanted_by_capabilities(state) == {"": 6, "gpu=1": 2, "licence=1": 1}
