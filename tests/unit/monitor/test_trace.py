"""Trace files for Perfetto and Chrome, checked by the rules of their format."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scaler.monitor import trace
from scaler.monitor.record import record
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.trace import RUNS, WAITS, Trace
from scaler.wire.messages.monitor import StateGraph, StateNode, StateRuns, StateTask
from tests.support import monitored
from tests.support.monitored import NOON_US

MS = 1000


def task(number: int, start: int, end: int, worker: str = "a", submitted: int = 0, **fields: Any) -> StateTask:
    """Return a task that ran from `start` to `end`, in milliseconds after noon; 0: not yet."""
    times = [NOON_US + at * MS if at else 0 for at in (submitted, start, end)]
    usual: dict[str, Any] = {"state": "success" if end else "running", "function_name": "price"}
    return StateTask(number.to_bytes(8, "big"), worker=worker, submitted_us=times[0], started_us=times[1],
                     ended_us=times[2], duration_us=max(0, end - start) * MS, **(usual | fields))  # fmt: skip


def received(*tasks: StateTask, shown: int = 0, total: int = 0, seconds: int = 10) -> Trace:
    made = Trace()
    made.take(monitored.news("tasks", time_us=NOON_US))
    if tasks:
        made.take(monitored.news("tasks", *tasks, time_us=NOON_US + seconds * 1_000_000, shown=shown, total=total))
    return made


def read(made: Trace, path: Path) -> list[dict[str, Any]]:
    """Write the file, read it, and check it by the rules of the format."""
    made.write(path)
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    opened: Counter[tuple[Any, ...]] = Counter()
    lanes: dict[tuple[int, int], int] = {}
    for event in events:
        assert event["ph"] in "MXbesf"
        assert isinstance(event["pid"], int)
        if event["ph"] == "M":
            continue
        assert isinstance(event["ts"], int)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            lane = event["pid"], event["tid"]
            assert event["ts"] >= lanes.get(lane, 0), f"runs of one lane overlap: {event}"
            lanes[lane] = event["ts"] + event["dur"]
        elif event["ph"] in "bs":
            opened[event["cat"], event["id"]] += 1
        else:
            opened[event["cat"], event["id"]] -= 1
    assert not +opened
    return events


def of(events: list[dict[str, Any]], phase: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == phase]


def test_a_run_is_a_bar_in_the_lane_of_its_worker_after_its_wait(tmp_path: Path) -> None:
    events = read(received(task(1, 20, 50, submitted=5, attempt=1), task(2, 20, 60, worker="b")), tmp_path / "t")
    first, second = of(events, "X")
    assert (first["ts"], first["dur"], first["name"], first["args"]["attempt"]) == (
        NOON_US + 20 * MS,
        30 * MS,
        "price",
        1,
    )
    assert first["tid"] != second["tid"]
    lanes = {event["tid"]: event["args"]["name"] for event in of(events, "M") if event["name"] == "thread_name"}
    assert (lanes[first["tid"]], lanes[second["tid"]]) == ("a", "b")
    (begin,), (end,) = of(events, "b"), of(events, "e")
    assert (begin["pid"], begin["ts"], end["ts"]) == (WAITS, NOON_US + 5 * MS, NOON_US + 20 * MS)


def test_runs_reported_together_are_drawn_one_after_another(tmp_path: Path) -> None:
    events = read(received(*(task(number, 99, 100) for number in range(1, 11))), tmp_path / "t")
    assert {event["tid"] for event in of(events, "X")} == {1}
    assert sorted((event["ts"] - NOON_US) // MS for event in of(events, "X")) == list(range(90, 100))


def test_nested_tasks_of_a_blocked_task_are_drawn_in_a_second_lane(tmp_path: Path) -> None:
    events = read(received(task(1, 1000, 9000), task(2, 3000, 4000), task(3, 5000, 6000)), tmp_path / "t")
    lanes = [event["args"]["name"] for event in of(events, "M") if event["name"] == "thread_name"]
    assert lanes == ["a", "a (2)"]


def test_runs_and_waits_that_have_not_ended_extend_to_the_end_of_the_trace(tmp_path: Path) -> None:
    events = read(
        received(
            task(1, 2000, 0, seen_us=NOON_US + 9_000_000), task(2, 0, 0, submitted=3000, worker="", state="inactive")
        ),
        tmp_path / "t",
    )
    (run,) = of(events, "X")
    assert run["dur"] == 8_000_000
    assert of(events, "e")[0]["ts"] == NOON_US + 10_000_000


def test_a_run_that_no_agent_reports_any_longer_ends_at_its_last_report(tmp_path: Path) -> None:
    run = task(1, 2000, 0, seen_us=NOON_US + 4_000_000)
    made = received(run, seconds=5)
    made.take(monitored.news("tasks", StateRuns(run.task, b"", 2000), time_us=NOON_US + 6_000_000))
    made.take(monitored.news("tasks", StateRuns(b"", run.task, 2000), time_us=NOON_US + 16_000_000))
    assert of(read(made, tmp_path / "t"), "X")[0]["dur"] == 14_000_000, "the last report may be late"
    made.take(monitored.news("tasks", StateRuns(b"", run.task, 2000), time_us=NOON_US + 17_000_000))
    assert of(read(made, tmp_path / "t"), "X")[0]["dur"] == 4_000_000


def test_nodes_of_a_graph_have_arrows(tmp_path: Path) -> None:
    made = received(task(1, 100, 200), task(2, 300, 400, worker="b"))
    graph = b"g" * 8
    assert made.topics == trace.TOPICS
    made.take(monitored.news("graphs", StateGraph(graph, nodes=2), time_us=NOON_US + 1))
    assert f"graph/{graph.hex()}" in made.topics
    ids = [number.to_bytes(8, "big") for number in (1, 2)]
    nodes = StateNode(graph, 0, ids[0]), StateNode(graph, 1, ids[1], dependencies=bytes(4))
    made.take(monitored.news(f"graph/{graph.hex()}", *nodes, time_us=NOON_US + 2))
    events = read(made, tmp_path / "t")
    (start,), (end,) = of(events, "s"), of(events, "f")
    assert (start["ts"], end["ts"]) == (NOON_US + 200 * MS, NOON_US + 300 * MS)
    assert start["pid"] == end["pid"] == RUNS
    assert start["tid"] != end["tid"]


def test_a_trace_has_the_number_of_tasks_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "TASKS_MOST", 2)
    made = received(*(task(number, 10 * number, 10 * number + 5) for number in range(1, 4)), shown=3, total=40)
    assert (len(made), made.left_out) == (2, 38)
    read(made, tmp_path / "t")
    assert json.loads((tmp_path / "t").read_text())["otherData"] == {"tasks": 2, "tasks left out": 38}


def test_tasks_from_before_the_trace_do_not_count_as_left_out() -> None:
    made = Trace()
    made.take(monitored.news("tasks", task(1, -9, -8), time_us=NOON_US, shown=1, total=4501))
    assert (len(made), made.left_out) == (0, 0)


def test_a_run_in_a_trace_has_its_owner_and_its_client(tmp_path: Path) -> None:
    of_alice = {"client": b"alicecli", "owner": "alice", "client_label": "prices.py 4711"}
    made = received(task(1, 10, 20, **of_alice), task(2, 10, 20, worker="b", client=b"somebody"))
    runs = [event["args"] for event in read(made, tmp_path / "trace") if event["ph"] == "X"]
    whose = [(run.get("owner"), run["client"]) for run in runs]
    assert whose == [("alice", "prices.py 4711"), (None, b"somebody".hex())]


def test_a_task_that_ended_before_the_trace_started_is_not_in_it() -> None:
    made = Trace()
    made.take(monitored.news("tasks", task(1, 100, 200), time_us=NOON_US + 1_000_000))
    assert len(made) == 0


def test_the_seconds_of_a_trace_count_from_its_first_message(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/stream"
    publisher = monitored.Publisher(address)
    subscriber = Subscriber(address)

    def say() -> None:
        publisher.await_topic("tasks")
        publisher.say("tasks")

    speaker = threading.Thread(target=say)
    try:
        speaker.start()
        assert record(subscriber, seconds=0, first_seconds=60).received == 1
    finally:
        speaker.join()
        subscriber.close()
        publisher.close()
