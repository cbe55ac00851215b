from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from scaler.actors.monitor.topics import TOPICS
from scaler.monitor.ui import views
from scaler.monitor.ui.feed import ALWAYS, DEPARTED_SECONDS_MOST, FeedState
from scaler.monitor.ui.views.graphs import depths
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.wire.messages.monitor import (
    BIN_ROW,
    PROCESSOR_ROW,
    StateBins,
    StateClient,
    StateFailure,
    StateGraph,
    StateMove,
    StateNode,
    StateObject,
    StateProcessors,
    StateRuns,
    StateTask,
    StateVerdict,
)
from tests.support import monitored
from tests.support.monitored import NOON_US, agent, counts, function, row, scheduler, waiting
from tests.unit.monitor.ui.conftest import Hear

NOON = NOON_US // 1_000_000


def frame(
    now_state: FeedState, page: str, sent: SentState | None = None, now: float = 1.0, **arguments: Any
) -> dict[str, Any]:
    """Return the frame as the page receives it."""
    shown = views.frame(now_state, PageRequest(1, page, arguments), sent or SentState(), now)
    again: dict[str, Any] = json.loads(json.dumps(shown))
    return again


def data(
    now_state: FeedState, page: str, sent: SentState | None = None, now: float = 1.0, **arguments: Any
) -> dict[str, Any]:
    found: dict[str, Any] = frame(now_state, page, sent, now, **arguments)["data"]
    return found


def task(number: int, state: str = "success", **fields: Any) -> StateTask:
    usual = {"name": f"task {number}", "function": b"function", "function_name": "price", "worker": "rome07:0"}
    return StateTask(b"task%04d" % number, state=state, **(usual | fields))


@pytest.mark.parametrize("page", views.PAGES)
def test_each_page_has_a_frame_before_any_news(state: FeedState, page: str) -> None:
    arguments = {"id": "ab" * 8} if page == "task" else {}
    shown = frame(state, page, **arguments)
    assert shown["strip"]["news"] == "never"
    assert shown["strip"]["open"] is None, "unknown is not 0"


def test_each_topic_is_always_subscribed_to_or_needed_by_a_page() -> None:
    needed = frozenset().union(*(views.topics(PageRequest(1, page)) for page in views.PAGES))
    assert TOPICS.keys() == ALWAYS | needed


def test_single_tasks_are_only_subscribed_to_while_a_page_shows_them() -> None:
    assert "tasks" not in ALWAYS
    with_id = {"id": "ab" * 8}
    of_pages = {page for page in views.PAGES if "tasks" in views.topics(PageRequest(1, page))}
    of_subjects = {page for page in views.PAGES if "tasks" in views.topics(PageRequest(1, page, with_id))}
    assert of_pages == {"stream", "tasks"}
    assert of_subjects == {"stream", "workers", "functions", "clients", "failures"}


def test_the_strip_shows_how_old_the_news_is(hear: Hear) -> None:
    state = hear("scheduler", scheduler(), now=1.0)
    assert frame(state, "live", now=1.5)["strip"]["news"] == "live"
    strip = frame(state, "live", now=8.0)["strip"]
    assert (strip["news"], strip["silent"]) == ("old", 7.0)


def test_the_strip_shows_the_verdict_of_the_scheduler(hear: Hear) -> None:
    state = hear("scheduler", scheduler(waiting=1), StateVerdict("no worker can run them", "1 waits: no tpu"))
    strip = frame(state, "live")["strip"]
    assert (strip["title"], strip["left"]) == ("Stuck: no worker can run them", "")
    found = StateVerdict("workers", "5 wait: all are busy", "1 needs tpu=1: no worker has it", 6_000_000)
    strip = frame(hear("scheduler", scheduler(waiting=6, running=1), found), "live")["strip"]
    assert (strip["title"], strip["left"]) == ("Working, bound by workers", "~6 s")
    assert strip["warning"] == "1 needs tpu=1: no worker has it"


def test_the_band_is_as_long_as_was_requested(hear: Hear) -> None:
    def seconds(state: FeedState, **arguments: int) -> int:
        band = frame(state, "live", **arguments)["band"]
        return int(band["step"] * len(band["columns"]["success"]))

    state = hear("scheduler", scheduler())
    assert (seconds(state), seconds(state, band=21600)) == (1800, 21600)
    state = hear("scheduler", scheduler(), time_us=NOON_US + 2_000_000_000)
    assert (seconds(state), seconds(state, band=21600)) == (1800, 21600), "its length does not change by itself"


def test_the_strip_shows_a_restart_and_history_stays(hear: Hear) -> None:
    hear("workers", agent(row(), row()))
    hear("scheduler", scheduler(workers=2), *counts(ended={"failed": 5}))
    hear("failures", StateFailure(b"fail", "ValueError", "bad", b"function", "price", 5, 1, 2, b"task", "w", "tb"))
    state = hear("scheduler", scheduler(workers=1), scheduler=b"another1", time_us=NOON_US + 5_000_000)
    strip = frame(state, "live")["strip"]
    assert strip["restart"] == {"at": NOON + 5, "back": 1, "of": 2}
    assert state.history.read(("open",), NOON, 1, 1)["open"] == [0.0]
    (failure,) = data(state, "failures")["rows"]
    assert (failure["name"], "earlier scheduler" in failure["flag"]) == ("ValueError: bad", True)


def test_only_new_values_of_a_series_are_sent(hear: Hear) -> None:
    sent = SentState()
    hear("scheduler", scheduler(), time_us=NOON_US)
    state = hear("scheduler", scheduler(), time_us=NOON_US + 1_000_000)
    first = data(state, "live", sent)["series"]
    assert first["full"]
    assert len(first["columns"]["success"]) == 300
    hear("scheduler", scheduler(), time_us=NOON_US + 2_000_000)
    second = data(state, "live", sent)["series"]
    assert (second["full"], second["start"], len(second["columns"]["success"])) == (False, NOON + 1, 2), (
        "the last second may have changed"
    )
    assert not data(state, "live", sent)["series"]["columns"]["success"], "nothing is new"


def test_workers_stay_in_their_order_while_they_work(hear: Hear) -> None:
    state = hear("workers", agent(*(row(cpu=990 - number * 7 % 50) for number in range(12))))
    rows = data(state, "live")["workers"]["rows"]
    assert [each["name"] for each in rows] == [f"rome07:{number}" for number in range(12)]


def test_a_stuck_worker_is_the_first_row_with_its_reason(hear: Hear) -> None:
    hear("functions", function(durations=monitored.durations(b16=100)))
    state = hear(
        "workers", agent(row(), row(running_ms=3_600_000)), agent(row(), agent=b"other", seen_ms=100, host="b")
    )
    first = data(state, "live")["workers"]["rows"][0]
    assert first["name"] == "rome07:1"
    assert "3600" in first["flag"]


def test_a_worker_that_left_is_shown_for_a_while(hear: Hear) -> None:
    hear("workers", agent(row(), row()), now=1.0)
    state = hear("workers", agent(row()), now=10.0)
    shown = data(state, "live", now=15.0, kept=60)["workers"]["rows"]
    assert [(each["name"], each.get("gone")) for each in shown] == [("rome07:0", None), ("rome07:1", 5.0)]
    assert len(data(state, "live", now=15.0, kept=0)["workers"]["rows"]) == 1
    assert len(data(state, "live", now=80.0, kept=60)["workers"]["rows"]) == 1
    hear("workers", agent(row()), now=20.0 + DEPARTED_SECONDS_MOST)
    assert len(data(state, "live", now=20.0, kept=3600)["workers"]["rows"]) == 1, "it is forgotten"
    hear("workers", agent(row(), row()), now=21.0 + DEPARTED_SECONDS_MOST)
    assert not any("gone" in each for each in data(state, "live", now=82.0, kept=3600)["workers"]["rows"])


def test_functions_show_what_they_wait_for_and_how_long_they_take(hear: Hear) -> None:
    state = hear(
        "functions",
        function("price", 40, 2, 41_000, waits_for="no room", failed=3, durations=monitored.durations(b16=95, b20=5)),
        function("<script>", 0, 0, function=b"other"),
    )
    first, second = data(state, "live")["functions"]["rows"]
    assert (first["open"], first["waits"], first["mean"], first["failed"]) == (42, "a free worker", 0.041, 3)
    assert 0.03 < first["p95"] <= 0.066
    assert second["name"] == "<script>"
    for identity in (b"function".hex(), "price"):
        assert data(state, "function", id=identity)["function"]["name"] == "price"
    assert data(state, "function", id="nothing")["subject"] is None


def test_a_page_shows_clients_and_reasons_of_waiting(hear: Hear) -> None:
    hear("clients", StateClient(b"a", "quant@ws14", open=3), StateClient(b"b", "web", open=9, is_away=1))
    groups = waiting(2, "inputs"), waiting(3, "no room"), waiting(1, "taken", "gpu=1"), waiting(0, "")
    state = hear("scheduler", scheduler(waiting=6), *groups)
    shown = data(state, "live")
    clients = [(each["name"], each["state"]) for each in shown["clients"]["rows"]]
    assert clients == [("web", "away"), ("quant@ws14", "connected")]
    said = [(each["waiting"], each["waits"]) for each in shown["waiting"]["rows"]]
    assert said[:3] == [(3, "a free worker"), (2, "other tasks"), (1, "gpu=1")]


def test_tasks_are_those_of_the_time_that_the_browser_stores(hear: Hear) -> None:
    state = hear("tasks", *(task(n, ended_us=NOON_US - n * 1_000_000_000) for n in range(10)))
    assert {each["name"] for each in data(state, "tasks", stored=1800)["rows"]} == {"task 0", "task 1"}
    assert data(state, "tasks", stored=1800, start=NOON - 5500, end=NOON)["total"] == 6
    assert data(state, "tasks")["total"] == 10


def test_the_page_of_a_task_has_its_history_and_its_traceback(hear: Hear) -> None:
    topic = f"task/{b'task0007'.hex()}"
    hear("failures", StateFailure(b"f", "ValueError", "bad", b"function", "price", 1, 1, 2, b"task0007", "w", "Trace"))
    state = hear(
        topic, task(7, "failed", attempt=2), StateMove(b"task0007", NOON_US, "assigned", "running", "w", 2, "")
    )
    shown = data(state, "task", id=b"task0007".hex())
    assert shown["task"]["attempt"] == 2
    history, traceback = sorted(shown["parts"], key=lambda part: part["kind"])
    assert history["table"]["rows"][0]["event"] == "assigned"
    assert traceback["text"] == "Trace"
    assert views.topics(PageRequest(1, "task", {"id": b"task0007".hex()})) == {topic}


def test_the_stream_sends_bins_and_then_only_new_ones(hear: Hear) -> None:
    hear("workers", agent(row()))
    bins = StateBins(b"agent", BIN_ROW.pack(0, 800, 1, 1, 0, 0, b"function"))
    state, sent = hear("bins", bins), SentState()
    shown = data(state, "stream", sent)
    assert shown["full"]
    ((key, name, host, busy, ends),) = shown["lanes"]
    assert (key, name, host) == (f"{b'agent'.hex()}.0", "rome07:0", "rome07")
    assert (len(busy), busy[-1], ends[-1]) == (300, "8", "2")
    hear("bins", bins, time_us=NOON_US + 1_000_000)
    again = data(state, "stream", sent)
    assert (again["full"], again["end"], again["count"]) == (False, NOON + 2, 1)
    assert len(again["lanes"][0][3]) == len(again["all"]) == 3, "the last ones may have changed"
    long = StateBins(b"agent", BIN_ROW.pack(0, 5000, 1, 0, 0, 0, b"function"))
    hear("bins", long, time_us=NOON_US + 9_000_000)
    (lane,) = data(state, "stream", sent)["lanes"]
    assert lane[3].endswith("0aaaaa"), "what ran before is told when it ends"
    hear("bins", long, time_us=NOON_US + 14_000_000)
    (lane,) = data(state, "stream", sent)["lanes"]
    assert lane[3].endswith("aaaaa")
    assert 5 <= len(lane[3]) < 20


def test_a_task_is_drawn_alone_only_if_it_is_wide_enough(hear: Hear) -> None:
    hear("workers", agent(row(running_ms=100)))
    long = task(1, started_us=NOON_US - 9_000_000, ended_us=NOON_US - 1_000_000)
    short = task(2, started_us=NOON_US - 1_500_000, ended_us=NOON_US - 1_000_000)
    hear("tasks", long, short)
    state = hear("bins", StateBins(b"agent", b""))
    assert [each[1] for each in data(state, "stream")["tasks"]] == ["task 1"]
    hear("workers", agent(row(running_ms=30_000)))
    assert [each[2] for each in data(state, "stream")["tasks"]] == ["running", "success"]


def test_the_task_stream_advances_without_ended_tasks_and_marks_lost_workers(hear: Hear) -> None:
    def bins() -> StateBins:
        return StateBins(b"agent", BIN_ROW.pack(0, 1000, 0, 0, 0, 0, b"function"))

    hear("workers", agent(row(), row(flags=1)))
    hear("bins", bins(), time_us=NOON_US)
    hear("scheduler", scheduler(), time_us=NOON_US)
    state = hear("scheduler", scheduler(), time_us=NOON_US + 60_000_000)
    shown = data(state, "stream")
    assert shown["end"] == NOON + 61
    state = hear("workers", agent(row(), row(flags=1), is_leaving=2))
    lanes = {name: ends for _, name, _, _, ends in data(state, "stream")["lanes"]}
    assert (lanes["rome07:0"][-61], set(lanes["rome07:1"])) == ("2", {"0"})
    assert data(state, "live")["workers"]["rows"][0]["state"] == "lost"
    state = hear("workers", agent(row(), agent=b"other"))
    shown_rows = data(state, "live")["workers"]["rows"]
    assert [(each["state"], each.get("gone")) for each in shown_rows] == [("busy", None), ("gone", 0.0), ("gone", 0.0)]


@pytest.mark.thorough
def test_a_thousand_workers_are_sixty_lanes_and_one_for_all(hear: Hear) -> None:
    rows = b"".join(BIN_ROW.pack(number, 500, 1, 0, 0, 0, b"function") for number in range(1000))
    hear("workers", agent(*(row() for _ in range(1000))))
    state = hear("bins", StateBins(b"agent", rows))
    shown = data(state, "stream", offset=960)
    assert (len(shown["lanes"]), shown["total"], shown["offset"]) == (40, 1000, 960)
    assert [lane[1] for lane in shown["lanes"]] == [f"rome07:{number}" for number in range(960, 1000)]
    assert shown["all"][-1] == "5"
    assert len(json.dumps(frame(state, "stream"))) < 64_000


def test_memory_by_host_counts_each_host_once(hear: Hear) -> None:
    hear("workers", agent(row(rss=5)), agent(row(rss=6), agent=b"second"), agent(row(), agent=b"far", host="far"))
    hear("clients", StateClient(b"c", "night run", b"c"))
    state = hear("objects", StateObject(b"o", "surface", b"c", 100, 1, 2), total=7)
    shown = data(state, "memory")
    (here,) = (each for each in shown["hosts"]["rows"] if each["name"] == "rome07")
    assert (here["workers"], here["rss"], here["rss_free"]) == (2, 11, 9 << 30)
    (stored,) = shown["objects"]["rows"]
    assert (stored["name"], stored["owner"], shown["objects"]["all"]) == ("value surface", "night run", 7)


def test_processes_are_shown_with_their_workers(hear: Hear) -> None:
    hear("workers", agent(row()))
    packed = PROCESSOR_ROW.pack(4712, 0, 3, 990, 1500, 10, 20, b"task0001", b"function")
    state = hear("processors", StateProcessors(b"agent", packed))
    (shown,) = data(state, "processors")["rows"]
    assert (shown["name"], shown["pid"], shown["peak"]) == ("rome07:0", 4712, 20)
    one = data(state, "worker", id=shown["links"]["name"])
    assert one["parts"][0]["table"]["rows"][0]["pid"] == 4712
    assert data(state, "worker", id="rome07:0")["worker"]["name"] == "rome07:0"
    assert data(state, "worker", id="nobody")["subject"] is None


def node(position: int, *inputs: int, state: str = "waiting") -> StateNode:
    packed = struct.pack(f"<{len(inputs)}I", *inputs)
    return StateNode(b"graph", position, b"task%04d" % position, "price", packed, state, 0)


def test_a_graph_is_drawn_by_depth(hear: Hear) -> None:
    hear("graphs", StateGraph(b"graph", "risk", b"c", 4, 1, 1, 2))
    state = hear(f"graph/{b'graph'.hex()}", node(0, state="success"), node(1), node(2, 0, 1), node(3, 2, 0))
    sent = SentState()
    shown = data(state, "graphs", sent, id=b"graph".hex())["drawing"]
    assert [(each[0], each[1]) for each in shown["nodes"]] == [(0, 0), (1, 0), (2, 1), (3, 2)]
    assert sorted(map(tuple, shown["edges"])) == [(0, 2), (0, 3), (1, 2), (2, 3)]
    assert data(state, "graphs", sent, id=b"graph".hex())["drawing"]["edges"] is None, "they do not change"
    assert data(state, "graphs", id=b"graph".hex())["graph"]["success"] == 2


def test_a_large_graph_is_drawn_as_boxes(hear: Hear) -> None:
    nodes = [node(number) for number in range(2001)]
    state = hear(f"graph/{b'graph'.hex()}", *nodes)
    shown = data(state, "graphs", id=b"graph".hex())["drawing"]
    assert shown["boxes"]
    assert shown["nodes"] == [[0, "price", {"waiting": 2001}]]
    assert shown["edges"] == []


def test_depths_are_computed_even_for_a_cycle() -> None:
    assert depths({0: node(0, 1), 1: node(1, 0), 2: node(2)}) == {0: 0, 1: 0, 2: 0}


def test_a_full_page_of_a_thousand_workers_is_small(hear: Hear) -> None:
    hear("workers", *(agent(*(row() for _ in range(20)), agent=b"agent%03d" % n, host=f"host{n}") for n in range(50)))
    state = hear("scheduler", scheduler(workers=1000))
    assert len(json.dumps(frame(state, "live"))) < 64_000


def test_only_runs_that_agents_report_are_shown_as_running(hear: Hear) -> None:
    """The others are queued at their workers, or shown with the time of their last report."""
    times = {"submitted_us": NOON_US - 9_000_000, "started_us": NOON_US - 5_000_000, "seen_us": NOON_US}
    hear("tasks", task(1, "running", **times), task(2, "running"), task(3, "running", **times))
    both = b"".join(task(number).task for number in (2, 3))
    later = NOON_US + 12_000_000
    state = hear("tasks", StateRuns(task(1).task, both, 2000), time_us=later)
    rows = {each["name"]: each for each in data(state, "tasks")["rows"]}
    shown = {name: (row["state"], row["duration"], row["seen"]) for name, row in rows.items()}
    assert shown == {"task 1": ("running", 17, None), "task 2": ("queued", None, None), "task 3": ("unseen", 5, NOON)}
    assert [row["name"] for row in data(state, "tasks", state="running")["rows"]] == ["task 1"]


def test_bars_that_run_now_are_those_of_the_newest_reports_of_workers(hear: Hear) -> None:
    times = {"started_us": NOON_US - 60_000_000, "seen_us": NOON_US - 30_000_000}
    hear("tasks", task(1, "running", worker="rome07:1", **times), task(2, "running", **times | {"seen_us": NOON_US}))
    hear("bins", StateBins(b"agent001", b""))
    state = hear("workers", agent(row(running_ms=60_000), row(flags=0)))
    bars = data(state, "stream")["tasks"]
    assert [(bar[3], bar[4], bar[5]) for bar in bars if not bar[5]] == [("rome07:0", NOON - 60.0, 0)]
    assert [(bar[2], bar[3], bar[5]) for bar in bars if bar[5]] == [("unseen", "rome07:1", NOON - 30.0)]
    state = hear("workers", agent(row(running_ms=60_000), row(flags=0), seen_ms=20_000))
    (bar,) = [bar for bar in data(state, "stream")["tasks"] if bar[3] == "rome07:0"]
    assert bar[4:] == [NOON - 80.0, NOON - 20.0], "the agent is silent"


def test_busy_workers_are_unknown_until_most_agents_have_reported(hear: Hear) -> None:
    hear("scheduler", scheduler(workers=2))
    state = hear("workers", agent(names="rome07:0,rome07:1"))
    assert frame(state, "live")["strip"]["busy"] is None
    assert frame(hear("workers", agent(row(), row())), "live")["strip"]["busy"] == 2
