from __future__ import annotations

import pytest

from scaler.monitor.model.model import EVENTS_MOST, LINES_MOST, SILENT_SECONDS, Model
from scaler.wire.messages.monitor import (
    StateClient,
    StateEvent,
    StateFailure,
    StateGraph,
    StateJob,
    StateLine,
    StateMove,
    StateNode,
    StateTask,
)
from tests.support.monitored import NOON_US, agent, counts, function, news, row, scheduler, waiting

SECOND = 1_000_000


def test_counters_are_those_of_the_last_message() -> None:
    model = Model()
    model.take(news("scheduler", scheduler(waiting=5, running=2), *counts(ended={"success": 3, "failed": 1})), 0)
    model.take(
        news(
            "scheduler",
            scheduler(waiting=4, running=2, objects=9),
            *counts(ended={"success": 4, "timedOut": 2, "notFound": 1}, sent={"RunTask": 6}, received={"Task": 10}),
            waiting(4, "inputs", places=0),
            time_us=NOON_US + SECOND,
        ),
        1,
    )
    assert model.outcomes == {"success": 4, "failed": 2, "canceled": 0, "not_found": 1}
    assert model.failed == 3
    assert model.sent == {"RunTask": 6}
    assert model.received == {"Task": 10}
    assert model.reasons == {"inputs": 4}
    assert model.open_tasks == 6
    assert model.scheduler is not None
    assert model.scheduler.objects == 9


def test_a_snapshot_replaces_the_last_one_when_it_is_complete() -> None:
    model = Model()
    first, second, third = (StateClient(bytes([number]) * 8, f"client {number}") for number in (1, 2, 3))
    model.take(news("clients", first, second), 0)
    model.take(news("clients", third, more=1), 2)
    assert len(model.clients) == 2
    model.take(news("clients", first), 2)
    assert [each.label for each in model.clients.values()] == ["client 3", "client 1"]
    model.take(news("clients"), 4)
    assert model.clients == {}


def test_workers_are_rows_of_their_agents() -> None:
    model = Model()
    model.take(news("scheduler", scheduler()), 0)
    model.take(news("workers", agent(row(cpu=500, sent=3, queued=2), row(flags=1), host="rome")), 0)
    first, second = model.workers
    assert (first.name, first.host, first.cpu_permille, first.sent, first.queued) == ("rome:0", "rome", 500, 3, 2)
    assert (first.free, first.rss_bytes, first.marks) == (997, 400 << 20, "110")
    assert first.is_busy
    assert not second.is_busy
    assert model.busy == 1


def test_free_slots_are_known_once_the_queue_size_is() -> None:
    model = Model()
    model.take(news("workers", agent(row(sent=3))), 0)
    assert [each.free for each in model.workers] == [None]
    model.take(news("scheduler", scheduler()), 0)
    assert [each.free for each in model.workers] == [997]


def test_workers_of_an_agent_without_a_report_are_not_known() -> None:
    model = Model()
    model.take(news("workers", agent(names="a,b")), 0)
    assert [(each.name, each.cpu_permille, each.marks) for each in model.workers] == [
        ("a", None, "---"),
        ("b", None, "---"),
    ]


def test_another_scheduler_is_a_restart_that_keeps_history_and_events() -> None:
    model = Model()
    for second in range(3):
        items = scheduler(), *counts(ended={"success": 100 * second})
        model.take(news("scheduler", *items, time_us=NOON_US + second * SECOND), second)
    model.take(news("workers", agent(row(), row())), 3)
    model.take(news("failures", StateFailure(b"f" * 8, "ValueError", times=3)), 3)
    model.take(news("events", StateEvent(NOON_US, "came", "rome", "")), 3)
    model.take(news("scheduler", scheduler(), scheduler=b"another!", time_us=NOON_US + 5 * SECOND), 5)
    assert (model.workers_before, model.restarted_us) == (2, NOON_US + 5 * SECOND)
    assert (model.workers, model.failures, model.outcomes["success"]) == ([], {}, 0)
    assert len(model.events) == 1
    assert model.restarts == [NOON_US // SECOND + 5]
    assert model.history.read(("workers",), NOON_US // SECOND, 1, 6)["workers"].count(None) == 2
    assert model.rates.tasks is None  # counters that restarted give no rate


def test_silence_and_gaps_are_noticed() -> None:
    model = Model()
    assert model.silent_seconds(100) is None
    model.take(news("scheduler", scheduler()), 100)
    assert model.silent_seconds(100 + SILENT_SECONDS) is None
    assert model.silent_seconds(107) == 7
    model.take(news("clients", missed=3), 108)
    assert model.silent_seconds(108) is None
    assert model.missed == 3


def test_a_snapshot_whose_last_part_was_lost_is_dropped() -> None:
    model = Model()
    model.take(news("clients", StateClient(b"g" * 8), more=1), 0)
    model.take(news("clients", StateClient(b"h" * 8), missed=1), 1)
    assert list(model.clients) == [b"h" * 8]


def test_failures_are_merged_and_keep_a_traceback_that_was_sent_once() -> None:
    model = Model()
    model.take(news("failures", StateFailure(b"f" * 8, "ValueError", times=1, traceback="Traceback")), 0)
    model.take(news("failures", StateFailure(b"f" * 8, "ValueError", times=5), StateFailure(b"g" * 8, "KeyError")), 1)
    assert [(each.type, each.times, each.traceback) for each in model.failures.values()] == [
        ("ValueError", 5, "Traceback"),
        ("KeyError", 0, ""),
    ]


def test_successful_tasks_are_dropped_before_failed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.monitor.model.tasks.TASKS_MOST", 3)
    model = Model()
    tasks = [
        StateTask(bytes([number]) * 8, state="failed" if number == 1 else "success", ended_us=number)
        for number in range(1, 6)
    ]
    model.take(news("tasks", *tasks), 0)
    assert [(task[0], each.state) for task, each in model.tasks.items()] == [
        (1, "failed"),
        (4, "success"),
        (5, "success"),
    ]


def test_the_number_of_events_is_limited() -> None:
    model = Model()
    for start in range(0, 2 * EVENTS_MOST, 500):
        model.take(news("events", *[StateEvent(number, "came", "x") for number in range(start, start + 500)]), 0)
    assert len(model.events) == EVENTS_MOST
    assert model.events[-1].time_us == 2 * EVENTS_MOST - 1


def test_a_repeated_event_counts_once() -> None:
    model = Model()
    first, second = StateEvent(1, "came", "a"), StateEvent(2, "came", "b")
    model.take(news("events", first), 0)
    model.take(news("events", first, second), 1)
    model.take(news("events", first, second), 2)
    assert list(model.events) == [first, second]


def test_repeated_output_lines_count_once_and_the_latest_are_kept() -> None:
    model = Model()
    lines = [StateLine(b"t" * 8, number, text=str(number)) for number in range(1, LINES_MOST + 4)]
    model.take(news("task/01", *lines[:-2]), 0)
    picture = model.frozen()
    model.take(news("task/01", *lines[-10:]), 1)
    assert [line.number for line in model.output[b"t" * 8]] == list(range(4, LINES_MOST + 4))
    assert picture.output[b"t" * 8][-1].number == LINES_MOST + 1


def test_rates_and_history_of_a_still_copy_do_not_change() -> None:
    model = Model()
    for second, ended in enumerate((0, 10, 30)):
        at = {"time_us": NOON_US + second * SECOND}
        model.take(news("scheduler", scheduler(), *counts(ended={"success": ended}), **at), second)
        job = StateJob(b"j" * 8, "prices", state="open", rows=100, done=ended)
        model.take(news("jobs", job, total=1, shown=1, **at), second)
        if second == 1:
            picture = model.frozen()
    assert (picture.rates.ended["success"], model.rates.ended["success"]) == (10, 20)
    assert (picture.job_rates.per_second(job), model.job_rates.per_second(job)) == (10, 15)
    assert (picture.history.end, model.history.end) == (NOON_US // SECOND + 2, NOON_US // SECOND + 3)


def test_moves_nodes_and_graphs_are_found_by_their_ids() -> None:
    model = Model()
    model.take(news("task/01", StateMove(b"t" * 8, 1, "assigned"), StateMove(b"t" * 8, 2, "finished")), 0)
    model.take(news("graph/01", StateNode(b"g" * 8, 0, state="ready"), StateNode(b"g" * 8, 1)), 0)
    model.take(news("graph/01", StateNode(b"g" * 8, 0, state="running")), 1)
    model.take(news("graphs", StateGraph(b"g" * 8, "fold", nodes=2), total=7, shown=1), 1)
    assert [move.event for move in model.moves[b"t" * 8]] == ["assigned", "finished"]
    assert [node.state for node in model.nodes[b"g" * 8].values()] == ["running", ""]
    assert model.graphs[b"g" * 8].name == "fold"
    assert model.shown_and_total("graphs") == (1, 7)


def test_function_names_are_known_from_functions_and_failures() -> None:
    model = Model()
    model.take(news("functions", function("price", function=b"p" * 8)), 0)
    model.take(news("failures", StateFailure(b"f" * 8, "E", function=b"l" * 8, function_name="load")), 0)
    assert [model.function_name(name * 8) for name in (b"p", b"l", b"x")] == ["price", "load", "78" * 8]
