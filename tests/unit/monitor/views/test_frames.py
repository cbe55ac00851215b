"""Frames of views, and details, as the page and programs get them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from scaler.monitor.model.model import Model
from scaler.monitor.views.catalog import BY_SINGULAR, OF_DETAILS, VIEWS
from scaler.monitor.views.frames import ViewRequestError, as_csv, detail, frame
from scaler.monitor.views.view import ViewState
from scaler.wire.messages.monitor import (
    StateFailure,
    StateFunction,
    StateGraph,
    StateLine,
    StateNode,
    StateRuns,
    StateTask,
)
from tests.support.monitored import NOON_US, agent, news, row, scheduler
from tests.support.monitored_cluster import EXAMPLE, FAILURE, JOB, PRICE, loaded, model_of, task
from tests.support.pictures import watched

NOON = NOON_US / 1e6


def framed(name: str, model: Model | None = None, state: ViewState | None = None, **args: Any) -> dict[str, Any]:
    """Return a frame as it is received."""
    state = ViewState(model or model_of(watched())) if state is None else state
    sent: dict[str, Any] = json.loads(json.dumps(frame(VIEWS[name], state, args), allow_nan=False))
    return sent


def detailed(kind: str, identity: str, model: Model | None = None) -> dict[str, Any]:
    state = ViewState(model or model_of(watched()))
    sent: dict[str, Any] = json.loads(json.dumps(detail(BY_SINGULAR[kind], state, identity), allow_nan=False))
    return sent


def facts(details: dict[str, Any]) -> dict[str, Any]:
    return {heading: value for heading, _, value, _, _ in details["facts"]}


def tables(details: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {each["title"]: each["table"]["rows"] for each in details["parts"] if each["kind"] == "table"}


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_has_a_frame_with_and_without_news(name: str) -> None:
    for model in (model_of(), model_of(watched())):
        shown = framed(name, model)
        assert [each["name"] for each in shown["columns"]] == [each.name for each in VIEWS[name].fields if each.on_page]
        assert all(len({each["id"] for each in shown["rows"]}) == len(shown["rows"]) for _ in "x")
        assert shown["total"] == len(shown["rows"]) <= shown["all"]
        assert shown["empty"]["text"]


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in OF_DETAILS])
def test_each_row_has_details_with_the_same_id(name: str) -> None:
    for each in framed(name)["rows"]:
        found = detailed(VIEWS[name].singular, each["id"])
        assert found["subject"]["id"] == each["id"]
        assert found[VIEWS[name].singular] == found["subject"]
        links = each.pop("links", {})
        assert {key: found["subject"][key] for key in each} == each
        assert links.items() <= found["subject"].get("links", {}).items()


def test_values_are_in_base_units() -> None:
    first = framed("workers", sort="name")["rows"][0]
    assert first == first | {"name": "rome07:0", "cpu": 0.999, "rss": 412 << 20, "sent": 2, "lag": 0.0007}
    assert first["links"] == {"function": PRICE.hex(), "host": "rome07"}
    job = framed("jobs")["rows"][0]
    assert job == job | {"name": "prices-23", "rate": 385, "done": 403_850, "state": "open", "id": JOB.hex()}


def test_details_have_the_names_of_earlier_releases_too() -> None:
    job = detailed("job", JOB.hex())["job"]
    assert job["said"] == job["running"]
    assert "mean_us" not in detailed("function", "price")["function"], "its unit was another one"


def test_columns_say_what_they_are() -> None:
    shown = framed("functions")
    columns = {each["name"]: each for each in shown["columns"]}
    assert columns["name"] == {
        "name": "name",
        "title": "Function",
        "meaning": "the name of the function",
        "type": "name",
        "link": None,
        "sort": True,
        "bad": False,
    }
    assert shown["less"][0] == "canceled", "a fact goes before a column of the terminal"
    assert shown["less"][-len(VIEWS["functions"].less) :] == list(VIEWS["functions"].less)
    assert {"name", "open"}.isdisjoint(shown["less"])
    assert columns["failed"]["bad"]


def test_rows_are_sorted_filtered_and_paged() -> None:
    model = model_of(iter([news("workers", agent(*(row(cpu=number, sent=100 - number) for number in range(100))))]))
    shown = framed("workers", model, sort="-cpu", limit=10)
    assert [each["cpu"] for each in shown["rows"]] == [number / 1000 for number in range(99, 89, -1)]
    assert (shown["total"], shown["all"], shown["sort"]) == (100, 100, "-cpu")
    assert framed("workers", model, sort="cpu", limit=1)["rows"][0]["cpu"] == 0
    assert framed("workers", model, filter="rome07:42")["total"] == 1
    assert framed("workers", model, filter="!rome07:42")["total"] == 99
    shown = framed("workers", model, offset="1000", limit="30")
    assert (shown["offset"], len(shown["rows"])) == (90, 10)


@pytest.mark.parametrize(
    "args",
    [{"sort": "height"}, {"sort": 3}, {"filter": "x" * 301}, {"offset": "ten"}, {"limit": True}, {"start": 1.5}],
    ids=str,
)
def test_invalid_arguments_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ViewRequestError):
        framed("workers", **args)


def test_more_rows_than_the_most_are_never_sent() -> None:
    model = model_of(iter([news("workers", agent(*[row()] * 150))]))
    assert len(framed("workers", model, limit=10_000)["rows"]) == 100


def test_workers_that_look_stuck_are_first_and_departed_ones_last() -> None:
    model = model_of(loaded())
    gone = model.workers[0].__class__((b"gone", 0), "a", "rome01", model.workers[0].agent)
    shown = framed("workers", state=ViewState(model, departed={gone.key: (gone, 12.0)}))
    first, *_, last = shown["rows"]
    assert (first["name"], first["mark"]) == ("rome10:3", "*")
    assert first["flag"].startswith("its task has run for 190 s")
    assert (last["name"], last["gone"], last["state"], last["mark"]) == ("a", 12.0, "gone", "x")
    by_cpu = framed("workers", state=ViewState(model, departed={gone.key: (gone, 12.0)}), sort="-name")
    assert by_cpu["rows"][-1]["name"] == "a"


def test_more_functions_than_the_stream_has_are_counted() -> None:
    model = model_of(iter([news("functions", StateFunction(b"f", "price"), shown=1, total=4097)]))
    assert framed("functions", model)["all"] == 4097


def test_empty_views_say_what_to_do() -> None:
    model = model_of(iter([news("scheduler", scheduler())]))
    assert framed("workers", model)["empty"] == {
        "text": "No worker is connected. Run this on each host:",
        "command": "scaler_cluster tcp://127.0.0.1:2345",
        "more": "",
    }


def test_failures_of_an_earlier_scheduler_are_shown() -> None:
    old = StateFailure(b"old.....", "OSError", "no file", last_us=NOON_US - 10**9)
    state = ViewState(model_of(loaded()), old_failures={b"old.....": old, FAILURE: old})
    rows = framed("failures", state=state)["rows"]
    assert [each["name"] for each in rows][-1] == "OSError: no file"
    assert [each.get("flag") for each in rows] == [None, None, "of an earlier scheduler"]


def test_a_running_task_says_since_when_it_was_submitted_and_how_long_it_runs() -> None:
    one = StateTask(b"running.", "nap", PRICE, "nap", state="running", worker="rome07:0", attempt=1,
                    submitted_us=NOON_US - 9_000_000, started_us=NOON_US - 8_000_000, seen_us=NOON_US)  # fmt: skip
    model = model_of(loaded(), iter([news("tasks", one)]))
    found = detailed("task", b"running.".hex(), model)["task"]
    assert (found["submitted"], found["started"], found["duration"], found["waited"]) == (NOON - 9, NOON - 8, 8, 1)
    assert found["links"] == {"function": PRICE.hex(), "worker": f"{bytes(8).hex()}.0"}


def test_a_run_that_no_agent_reports_any_longer_says_when_it_was_last_seen() -> None:
    one = StateTask(b"running.", "nap", state="running", started_us=NOON_US - 8_000_000, seen_us=NOON_US)
    model = model_of(iter([news("tasks", one), news("tasks", StateRuns(others=one.task), time_us=NOON_US + 10**8)]))
    found = detailed("task", one.task.hex(), model)["task"]
    assert (found["state"], found["seen"], found["duration"]) == ("unseen", NOON, 8)


def test_one_word_stands_for_all_ways_to_fail() -> None:
    ends = ["inactive", "running", "canceling", "success", "failed", "workerDied", "timedOut", "canceled", "notFound"]
    tasks = [StateTask(b"task%04d" % number, state=state) for number, state in enumerate(ends)]
    rows = framed("tasks", model_of(iter([news("tasks", *tasks)])), limit=100)["rows"]
    states = {each["id"]: each["state"] for each in rows}
    words = ["waiting", "queued", "canceling", "success", "failed", "failed", "failed", "canceled", "failed"]
    assert [states[each.task.hex()] for each in tasks] == words
    assert {each["reason"] for each in rows} == {None, "workerDied", "timedOut", "notFound"}


def test_details_of_a_failed_task_have_its_history_output_and_traceback() -> None:
    line = StateLine(EXAMPLE, 1, NOON_US, 2, 3, "w", "hello")
    found = detailed("task", EXAMPLE.hex(), model_of(loaded(), iter([news("task/x", *task(), line)])))
    assert (found["title"], found["view"]) == (f"task #{EXAMPLE.hex()}", "tasks")
    assert facts(found) == facts(found) | {"State": "failed", "Why": "bad strike", "Peak memory": 9 << 20}
    assert ["Function", "name", "price", ["functions", PRICE.hex()], False] in found["facts"]
    assert found["parts"][0]["text"].endswith("ValueError: bad strike")
    shown = tables(found)
    assert [each["event"] for each in shown["history, while it is watched"]] == ["assigned", "raised"]
    assert shown["output"][0] == shown["output"][0] | {"stream": "logging", "when": NOON}


def test_details_of_an_unknown_task_have_what_is_known() -> None:
    line = StateLine(b"unknown.", 1, NOON_US, 0, 0, "w", "hello")
    found = detailed("task", b"unknown.".hex(), model_of(iter([news("task/x", line)])))
    assert (found["task"], found["subject"], found["facts"]) == (None, None, [])
    assert found["empty"]["text"].startswith("The scheduler reports nothing of this task.")
    assert tables(found)["output"][0]["text"] == "hello"


@pytest.mark.parametrize("identity", ["", "zz", "%E0", "ab", "ab" * 300, "\u202e", "a.b.c"])
@pytest.mark.parametrize("name", VIEWS)
def test_details_of_any_id_are_an_answer(name: str, identity: str) -> None:
    found = detailed(VIEWS[name].singular, identity)
    assert found["subject"] is None or found["subject"]["id"] == identity


def test_details_are_found_by_name_too() -> None:
    assert detailed("function", "price")["function"]["id"] == PRICE.hex()
    assert detailed("worker", "rome07:1")["worker"]["id"] == f"{bytes(8).hex()}.1"


def test_details_of_a_function_have_durations_workers_and_failures() -> None:
    found = detailed("function", PRICE.hex())
    (histogram,) = (each for each in found["parts"] if each["kind"] == "histogram")
    assert histogram["buckets"] == [[0.065536, 99]]
    shown = tables(found)
    assert shown["runs at"][0]["name"] == "rome10:3", "the longest first"
    assert shown["failures"][0]["id"] == FAILURE.hex()
    assert all("function" not in each for each in shown["runs at"]), "that leads back"


def test_details_of_a_worker_have_its_lane_and_processes() -> None:
    state = ViewState(model_of(watched()), lane=lambda key: {"end": 7, "busy": "99"} if key == (bytes(8), 0) else None)
    found = detail(VIEWS["workers"], state, f"{bytes(8).hex()}.0")
    assert {"kind": "lane", "title": "the last minutes", "end": 7, "busy": "99"} in found["parts"]
    assert [each["pid"] for each in tables(found)["processes"]] == [4801, 4802]
    assert "lane" not in [each["kind"] for each in detail(VIEWS["workers"], state, "rome07:1")["parts"]]


def test_details_of_a_graph_have_its_slowest_task_first() -> None:
    nodes = [StateNode(b"graph...", number, b"task%d..." % number, "f", duration_us=number) for number in range(3)]
    model = model_of(iter([news("graphs", StateGraph(b"graph...", "plan", nodes=3)), news("graph/x", *nodes)]))
    (rows,) = tables(detailed("graph", b"graph...".hex(), model)).values()
    assert [each["position"] for each in rows] == [2, 1, 0]


def test_csv_has_all_fields_in_base_units_and_no_formulas() -> None:
    bad = StateFailure(b"f" * 8, "=cmd|' /C calc'!A0", "", times=3, last_us=NOON_US)
    model = model_of(iter([news("failures", bad)]))
    text = as_csv(VIEWS["failures"], ViewState(model), {})
    head, line = csv.reader(io.StringIO(text))
    assert head[0] == "id"
    found = dict(zip(head, line, strict=True))
    assert found == found | {"name": "'=cmd|' /C calc'!A0", "count": "3", "last": "2026-11-18T11:06:40Z", "worker": ""}
    assert len(as_csv(VIEWS["workers"], ViewState(model_of(loaded(40))), {"filter": "rome08"}).splitlines()) == 5


def test_a_filter_of_csv_is_checked() -> None:
    with pytest.raises(ViewRequestError):
        as_csv(VIEWS["failures"], ViewState(model_of()), {"sort": "height"})
