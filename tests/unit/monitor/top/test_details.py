from __future__ import annotations

import pytest

from scaler.monitor.model.model import Model
from scaler.monitor.top.details import details_of, topic_of
from scaler.monitor.top.view import Target
from scaler.wire.messages.monitor import StateLine, StateTask
from tests.support.monitored import news
from tests.support.monitored_cluster import EXAMPLE, FAILURE, PRICE, loaded, model_of, processors, task


def text_of(model: Model, kind: str, key: object) -> str:
    details = details_of(model, Target(kind, key))
    return "\n".join([details.title, *[line.text for line in details.lines]])


def test_details_name_the_topic_that_they_need() -> None:
    assert topic_of(Target("worker", (b"", 0))) == "processors"
    assert topic_of(Target("task", b"\x01\xff")) == "task/01ff"
    assert topic_of(Target("failure", b"x")) == ""


@pytest.mark.parametrize("kind", ["worker", "function", "client", "failure", "task", "event"])
def test_details_of_removed_things_say_that_they_are_gone(kind: str) -> None:
    details = details_of(model_of(), Target(kind, b"gone"))
    assert len(details.lines) == 1
    assert details.lines[0].text.endswith((".", "kept."))


def test_details_of_a_stuck_worker_start_with_the_reason() -> None:
    model = model_of(loaded())
    (key,) = model.stuck.reasons
    assert details_of(model, Target("worker", key)).lines[0].text.startswith("* stuck? its task has run for 190 s")


def test_details_of_a_worker_link_to_the_task_of_its_process() -> None:
    model = model_of(loaded(), iter([news("processors", *processors())]))
    targets = [line.target for line in details_of(model, Target("worker", (bytes(8), 0))).lines if line.target]
    assert targets == [Target("task", EXAMPLE)]


def test_details_of_a_failure_link_to_an_example_with_its_traceback() -> None:
    model = model_of(loaded(), iter([news("task/x", *task())]))
    targets = [line.target for line in details_of(model, Target("failure", FAILURE)).lines if line.target]
    assert targets == [Target("task", EXAMPLE), Target("function", PRICE)]
    said = text_of(model, "task", EXAMPLE)
    assert "history, while it is watched" in said
    assert said.endswith("ValueError: bad strike")


def test_details_of_a_task_show_its_output() -> None:
    lines = [StateLine(EXAMPLE, 1, 0, 0, 0, "w", "one"), StateLine(EXAMPLE, 2, 0, 2, 1204, "w", "two")]
    lines += [StateLine(EXAMPLE, number, 0, 3, 0, "w", f"{number}% of it") for number in (3, 4)]
    model = model_of(loaded(), iter([news("task/x", *task(), *lines)]))
    shown = [line.text for line in details_of(model, Target("task", EXAMPLE)).lines]
    start = shown.index("output")
    assert [text.split(maxsplit=1)[1] for text in shown[start + 1 : start + 5]] == [
        "stdout  one",
        "lines were left out)",
        "logging two",
        "report  4% of it",
    ]
    assert shown[start + 2] == " (1,204 lines were left out)"


def test_another_failed_task_has_the_traceback_of_its_kind() -> None:
    other = StateTask(b"other...", "price", PRICE, "price", state="failed", reason="ValueError: bad strike")
    model = model_of(loaded(), iter([news("tasks", other)]))
    assert "traceback of the last failure of this kind\nTraceback" in text_of(model, "task", b"other...")


def test_a_function_lists_the_workers_that_run_it_longest_first() -> None:
    lines = details_of(model_of(loaded()), Target("function", PRICE)).lines
    workers = [line.text for line in lines if line.target and line.target.kind == "worker"]
    assert len(workers) == 16
    assert workers[0] == " rome10:3  3.2m"
