from __future__ import annotations

from scaler.monitor.demand import wanted_by_capabilities
from scaler.monitor.model.model import Model
from scaler.wire.messages.monitor import StateWaiting
from tests.support.monitored import news, scheduler, waiting


def model(*groups: StateWaiting) -> Model:
    model = Model()
    model.take(news("scheduler", scheduler(), *groups), 1.0)
    return model


def test_nothing_is_wanted_without_work_or_without_news() -> None:
    assert wanted_by_capabilities(Model()) == {}
    assert wanted_by_capabilities(model(waiting(0))) == {"": 0}


def test_work_is_to_be_done_within_the_target() -> None:
    state = model(waiting(900, running=100, mean_us=50_000))
    assert wanted_by_capabilities(state) == {"": 10}
    assert wanted_by_capabilities(state, target_seconds=1) == {"": 50}


def test_there_is_at_most_one_worker_for_a_task() -> None:
    assert wanted_by_capabilities(model(waiting(2, running=1, mean_us=3_600_000_000))) == {"": 3}


def test_a_task_of_unknown_length_wants_a_worker_of_its_own() -> None:
    assert wanted_by_capabilities(model(waiting(7, running=1))) == {"": 8}


def test_nodes_that_wait_for_others_want_none() -> None:
    assert wanted_by_capabilities(model(waiting(1), waiting(90, "inputs"))) == {"": 1}


def test_tasks_that_ask_for_something_are_counted_apart() -> None:
    groups = waiting(20, running=10, mean_us=1_000_000), waiting(6, asks="gpu=1", running=4, mean_us=1_000_000)
    state = model(*groups, waiting(1, "no worker can take it", "licence=1"))
    assert wanted_by_capabilities(state) == {"": 6, "gpu=1": 2, "licence=1": 1}
