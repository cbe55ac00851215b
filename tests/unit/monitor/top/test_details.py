from __future__ import annotations

import pytest

from scaler.monitor.model.model import Model
from scaler.monitor.top.details import Details, details_of
from scaler.monitor.top.view import Target
from scaler.monitor.views.view import ViewState
from scaler.wire.messages.monitor import StateGraph, StateLine, StateNode, StateTask
from tests.support.monitored import news
from tests.support.monitored_cluster import EXAMPLE, FAILURE, JOB, LOAD, PRICE, loaded, model_of, processors, task


def details(model: Model, kind: str, key: object) -> Details:
    return details_of(ViewState(model), Target(kind, key))


def text_of(model: Model, kind: str, key: object) -> str:
    shown = details(model, kind, key)
    return "\n".join([shown.title, *[line.text for line in shown.lines]])


@pytest.mark.parametrize("kind", ["worker", "function", "client", "failure", "task", "event"])
def test_details_of_removed_things_say_that_they_are_gone(kind: str) -> None:
    shown = details(model_of(), kind, b"gone")
    assert len(shown.lines) == 1
    assert shown.lines[0].text.endswith((".", "kept."))


def test_details_of_a_stuck_worker_start_with_the_reason() -> None:
    model = model_of(loaded())
    (key,) = model.stuck.reasons
    assert details(model, "worker", key).lines[0].text.startswith("* stuck? its task has run for 190 s")


def test_details_of_a_worker_link_to_the_task_of_its_process() -> None:
    model = model_of(loaded(), iter([news("processors", *processors())]))
    targets = [line.target for line in details(model, "worker", (bytes(8), 0)).lines if line.target]
    assert targets == [Target("function", PRICE), Target("host", "rome07"), Target("task", EXAMPLE)]


def test_details_of_a_failure_link_to_an_example_with_its_traceback() -> None:
    model = model_of(loaded(), iter([news("task/x", *task())]))
    targets = [line.target for line in details(model, "failure", FAILURE).lines if line.target]
    assert targets == [Target("function", PRICE), Target("task", EXAMPLE), Target("task", EXAMPLE)]
    said = text_of(model, "task", EXAMPLE)
    assert "history, while it is watched" in said
    assert '    raise ValueError("bad strike")\nValueError: bad strike\n\nhistory' in said


def test_details_of_a_task_show_its_output() -> None:
    lines = [StateLine(EXAMPLE, 1, 0, 0, 0, "w", "one"), StateLine(EXAMPLE, 2, 0, 2, 1204, "w", "two")]
    lines += [StateLine(EXAMPLE, number, 0, 3, 0, "w", f"{number}% of it") for number in (3, 4)]
    model = model_of(loaded(), iter([news("task/x", *task(), *lines)]))
    shown = [line.text for line in details(model, "task", EXAMPLE).lines]
    start = shown.index("output") + 2
    assert [text[10:] for text in shown[start : start + 3]] == [
        "stdout   one",
        "logging  (1,204 lines were left out) two",
        "report   4% of it",
    ]


def test_long_lines_of_output_are_not_cut() -> None:
    line = StateLine(EXAMPLE, 1, 0, 0, 0, "w", "x" * 300)
    assert "x" * 300 in text_of(model_of(loaded(), iter([news("task/x", *task(), line)])), "task", EXAMPLE)


def test_another_failed_task_has_the_traceback_of_its_kind() -> None:
    other = StateTask(b"other...", "price", PRICE, "price", state="failed", reason="ValueError: bad strike")
    model = model_of(loaded(), iter([news("tasks", other)]))
    assert "traceback of the last failure of this kind\nTraceback" in text_of(model, "task", b"other...")


def test_a_function_lists_the_workers_that_run_it_longest_first() -> None:
    lines = details(model_of(loaded()), "function", PRICE).lines
    workers = [line.text for line in lines if line.target and line.target.kind == "worker"]
    assert len(workers) == 16
    assert workers[0].startswith("*rome10:3 ")


def test_short_facts_share_a_line_and_those_with_a_link_do_not() -> None:
    lines = details(model_of(loaded()), "job", JOB).lines
    assert lines[0].text.split() == ["state", "open", "done", "403,850"]
    (link,) = (line for line in lines if line.target)
    assert (link.text.split(), link.target) == (["function", "price"], Target("function", PRICE))


def test_durations_are_drawn_by_powers_of_two() -> None:
    shown = text_of(model_of(loaded()), "function", LOAD)
    assert "durations\n to   16ms        90 #####" in shown
    assert " to   2.1s        10 #####\n" in f"{shown}\n"


def test_a_filled_task_of_a_graph_leads_to_the_task() -> None:
    graph = StateGraph(b"graph...", "plan", nodes=2, running=1, success=1, submitted_us=1)
    nodes = [
        StateNode(b"graph...", 0, EXAMPLE, "load", state="success", duration_us=5),
        StateNode(b"graph...", 1, b"other...", "price", state="running", duration_us=9),
    ]
    model = model_of(iter([news("graphs", graph), news("graph/x", *nodes)]))
    lines = details(model, "graph", b"graph...").lines
    assert "##### 50%" in lines[1].text + lines[0].text
    assert [line.target.key for line in lines if line.target] == [b"other...", EXAMPLE]
