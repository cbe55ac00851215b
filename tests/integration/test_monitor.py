"""The monitor stream of a real scheduler, seen through a plain SUB socket."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, Cluster, Scheduler, SchedulerClusterCombo
from scaler.wire.messages.monitor import (
    BIN_ROW,
    DURATIONS,
    ENDED,
    HAS_TASK,
    PROCESSOR_ROW,
    RECEIVED,
    WORKER_ROW,
    StateAgent,
    StateBins,
    StateClient,
    StateEvent,
    StateFailure,
    StateFunction,
    StateGraph,
    StateMove,
    StateNode,
    StateObject,
    StateProcessors,
    StateScheduler,
    StateTask,
)
from tests.support.viewer import Message, Viewer, rows


@pytest.fixture(scope="module")
def combo() -> Iterator[SchedulerClusterCombo]:
    with SchedulerClusterCombo(n_workers=2, logging_level="WARNING") as combo:
        yield combo


def odd_only(number: int) -> int:
    if number % 10 == 0:
        raise ValueError(f"{number} is a multiple of ten")
    return number


def function_of(message: Message, name: str) -> StateFunction | None:
    return next((each for each in message.of(StateFunction) if each.name == name), None)


def test_objects_in_shared_memory_are_as_large_as_they_are(combo: SchedulerClusterCombo) -> None:
    with (
        Viewer(combo.get_monitor_address(), "objects", "scheduler") as viewer,
        Client(combo.get_address()) as client,
    ):
        reference = client.send_object(bytes(3_000_000), name="market data")
        seen = viewer.until(lambda seen: [each for each in seen.of(StateObject) if each.name == "market data"], "it")
        (shown,) = (each for each in seen.of(StateObject) if each.name == "market data")
        assert (shown.size_bytes, shown.is_shared) == (reference.size, 1)
        viewer.until(lambda seen: any(each.shared_bytes >= 3_000_000 for each in seen.of(StateScheduler)), "its bytes")


def test_counters_are_exact(combo: SchedulerClusterCombo) -> None:
    with Viewer(combo.get_monitor_address(), "scheduler", "functions", "bins") as viewer:
        watched = viewer.until(lambda seen: "AgentState" in seen.counts(RECEIVED), "a report: now all is counted")
        before = watched.counts(ENDED)
        with Client(combo.get_address()) as client:
            others = [client.submit(time.sleep, 60) for _ in range(9)]
            open_tasks = viewer.until(
                lambda seen: [each for each in seen.of(StateScheduler) if each.waiting == 7], "all"
            )
            assert open_tasks.of(StateScheduler)[0].running == 2
            for future in reversed(others):  # those that wait first: none of them starts in a place that gets free
                future.cancel()
            wait([client.submit(odd_only, number) for number in range(1000)])
            bins: list[tuple[int, ...]] = []
            seen_last: dict[str, Message] = {}

            def is_complete(seen: Message) -> bool:
                bins.extend(row[2:6] for each in seen.of(StateBins) for row in rows(BIN_ROW, each.bins))
                seen_last[seen.topic] = seen
                counts = seen_last["scheduler"].counts(ENDED) if "scheduler" in seen_last else before
                function = function_of(seen_last["functions"], "odd_only") if "functions" in seen_last else None
                return (
                    function is not None
                    and function.success + function.failed >= 1000
                    and function.runs >= 1000
                    and not function.running  # as of the last report of the agents
                    and sum(counts.values()) - sum(before.values()) >= 1009
                    and sum(sum(row) for row in bins) >= 1002
                )

            viewer.until(is_complete, "the ends of all tasks")
        after = seen_last["scheduler"].counts(ENDED)
        ended = {"success": 900, "failed": 100, "canceled": 9}
        assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == ended
        function = function_of(seen_last["functions"], "odd_only")
        assert function is not None
        assert (function.success, function.failed, function.waiting, function.running) == (900, 100, 0, 0)
        assert function.runs == sum(DURATIONS.unpack(function.durations)) == 1000
        assert function.least_us <= function.run_us / 1000 <= function.most_us
        success, failed, canceled, other = (sum(row[outcome] for row in bins) for outcome in range(4))
        assert (success, failed, other) == (900, 100, 0)
        assert 2 <= canceled <= 9  # one more may have begun when the first ended


def test_the_monitor_shows_what_a_worker_does(combo: SchedulerClusterCombo) -> None:
    with (
        Viewer(combo.get_monitor_address(), "workers", "processors", "clients", "scheduler", "functions") as viewer,
        Client(combo.get_address()) as client,
    ):
        future = client.submit(time.sleep, 60)

        def busy(seen: Message) -> list[tuple[StateAgent, tuple[int, ...]]]:
            return [
                (agent, row)
                for agent in seen.of(StateAgent)
                for row in rows(WORKER_ROW, agent.workers)
                if row[4] & HAS_TASK and row[7] >= 1000
            ]

        ((agent, row),) = busy(viewer.until(busy, "a busy worker"))
        assert row[1:4] == (1, 0, 0)
        assert row[5] > 1024 * 1024
        assert len(agent.worker_names.split(",")) == len(agent.workers) // WORKER_ROW.size == 2
        assert agent.pid
        assert agent.rss_bytes > 1024 * 1024
        processors = viewer.until(lambda seen: seen.of(StateProcessors), "processors").of(StateProcessors)[0]
        assert sum(bool(each[2] & HAS_TASK) for each in rows(PROCESSOR_ROW, processors.processors)) == 1
        (state,) = viewer.until(lambda seen: seen.of(StateScheduler), "the scheduler").of(StateScheduler)
        assert (state.workers, state.agents, state.clients, state.running) == (2, 1, 1, 1)
        assert state.rss_bytes > 1024 * 1024
        (shown,) = viewer.until(lambda seen: seen.of(StateClient), "the client").of(StateClient)
        assert shown.open == 1
        assert "@" in shown.label
        function = function_of(viewer.until(lambda seen: function_of(seen, "sleep"), "the function"), "sleep")
        assert function is not None
        assert function.function == row[6]
        future.cancel()


@pytest.mark.more
def test_agents_report_only_while_a_viewer_is_subscribed(combo: SchedulerClusterCombo) -> None:
    def reports(viewer: Viewer) -> int:
        return viewer.until(lambda seen: seen.counts(RECEIVED), "the counters").counts(RECEIVED).get("AgentState", 0)

    with Viewer(combo.get_monitor_address(), "scheduler") as viewer:
        before = reports(viewer)
        viewer.want("workers")
        viewer.until(lambda seen: seen.counts(RECEIVED).get("AgentState", 0) >= before + 2, "two reports")
        viewer.leave("workers")
        viewer.until(lambda seen: seen.topic == "scheduler", "that it was heard")
        stopped = reports(viewer)
        time.sleep(2.5)
        for _ in viewer.messages(0.1):
            pass
        assert reports(viewer) <= stopped + 1  # one may have been on its way


def test_a_second_viewer_does_not_wait_and_leaves_the_first_alone(combo: SchedulerClusterCombo) -> None:
    with Viewer(combo.get_monitor_address(), "events") as first:
        came = first.until(lambda seen: seen.of(StateEvent), "events")
        with Viewer(combo.get_monitor_address(), "events") as second:
            again = second.until(lambda seen: seen.of(StateEvent), "events", seconds=30.0)
        assert came.of(StateEvent)[0] == again.of(StateEvent)[0]
        number = came.number
        with Client(combo.get_address()):
            named = first.until(
                lambda seen: [each for each in seen.of(StateEvent) if each.kind == "came" and "client" in each.subject],
                "the client",
            )
        assert named.number > number
        assert came.head.scheduler == named.head.scheduler == again.head.scheduler


def test_a_viewer_may_want_very_much_at_once(combo: SchedulerClusterCombo) -> None:
    """They are heard in parts; topics come in their order, so this one is the last."""
    topics = [f"nothing/{number}" for number in range(600)]
    with Viewer(combo.get_monitor_address(), *topics, "scheduler") as viewer:
        viewer.until(lambda message: message.topic == "scheduler", "the last topic")


def test_failures_are_grouped_with_a_traceback(combo: SchedulerClusterCombo) -> None:
    with Viewer(combo.get_monitor_address(), "failures") as viewer, Client(combo.get_address()) as client:
        wait([client.submit(refuse, number) for number in range(30)])

        def refused(seen: Message) -> list[StateFailure]:
            return [each for each in seen.of(StateFailure) if each.function_name == "refuse" and each.times == 30]

        (kind,) = refused(viewer.until(refused, "all of them in one group"))
        assert (kind.type, kind.message.startswith("no room for ")) == ("KeyError", False)
        assert "no room for" in kind.message
        assert "in refuse" in kind.traceback
        assert kind.worker


def test_a_requested_task_is_reported_from_then_on(combo: SchedulerClusterCombo) -> None:
    with (
        Viewer(combo.get_monitor_address(), "tasks") as sample,
        Viewer(combo.get_monitor_address()) as viewer,
        Client(combo.get_address()) as client,
    ):
        sample.until(lambda seen: seen.topic == "tasks", "that the subscription was heard")
        blockers = [client.submit(time.sleep, 60) for _ in range(2)]
        waiting = client.submit(time.sleep, 0)

        def is_waiting(seen: Message) -> list[StateTask]:
            return [each for each in seen.of(StateTask) if each.function_name == "sleep" and each.state == "inactive"]

        (task,) = is_waiting(sample.until(is_waiting, "the task that waits"))
        sample.leave("tasks")
        viewer.want(f"task/{task.task.hex()}")
        first = viewer.until(lambda seen: seen.of(StateTask), "what is known of it").of(StateTask)[0]
        assert (first.task, first.state) == (task.task, "inactive")
        for blocker in blockers:
            blocker.cancel()
        waiting.result()
        moves: list[str] = []
        viewer.until(lambda seen: moves.extend(each.event for each in seen.of(StateMove)) or "finished" in moves, "all")
        assert moves[-2:] == ["assigned", "finished"]


def test_a_graph_and_its_nodes(combo: SchedulerClusterCombo) -> None:
    with Viewer(combo.get_monitor_address(), "graphs") as viewer, Client(combo.get_address()) as client:
        results = client.get({"a": (slowly, 3), "b": (slowly, 3), "c": (max, "a", "b")}, ["c"], block=False)

        def runs(seen: Message) -> list[StateGraph]:
            return [each for each in seen.of(StateGraph) if each.running == 2]

        (graph,) = runs(viewer.until(runs, "the graph, of which two nodes run"))
        assert (graph.nodes, graph.waiting) == (3, 1)
        viewer.want(f"graph/{graph.graph.hex()}")
        nodes = viewer.until(lambda seen: seen.of(StateNode), "its nodes").of(StateNode)
        assert [node.state for node in nodes] == ["running", "running", "inactive"]
        assert nodes[2].dependencies == bytes((0, 0, 0, 0, 1, 0, 0, 0))
        ended = viewer.until(lambda seen: [each for each in seen.of(StateGraph) if each.ended_us], "its end")
        assert ended.of(StateGraph)[0].success == 3
        assert results["c"].result() == 3


def refuse(number: int) -> None:
    raise KeyError(f"no room for {number}")


def slowly(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.more
def test_viewers_show_a_restarted_cluster_and_a_restarted_scheduler(tmp_path: Path) -> None:
    address, monitor = f"ipc://{tmp_path}/s", f"ipc://{tmp_path}/s_monitor"
    quiet: Any = {"logging_level": "ERROR"}

    def rows_of_one(seen: Message) -> list[StateAgent]:
        return [each for each in seen.of(StateAgent) if each.workers]

    def went(seen: Message) -> list[StateEvent]:
        return [each for each in seen.of(StateEvent) if each.kind == "went" and "agent" in each.subject]

    scheduler, cluster = Scheduler(address, **quiet), Cluster(address, 1, **quiet)
    scheduler.start()
    cluster.start()
    with Viewer(monitor, "workers", "events") as viewer:
        first = viewer.until(rows_of_one, "the rows of the first cluster")
        cluster.kill()
        viewer.until(went, "its end")
        with closing(Cluster(address, 1, **quiet)) as second:
            second.start()
            again = viewer.until(
                lambda seen: [each for each in rows_of_one(seen) if each.agent != first.of(StateAgent)[0].agent], "rows"
            )
            assert again.head.scheduler == first.head.scheduler
            scheduler.kill()
            scheduler.join()
            assert (tmp_path / "s_monitor").is_socket()  # nobody has tidied up
            with closing(Scheduler(address, **quiet)) as third:
                third.start()
                assert third.get_monitor_address() == monitor
                anew = viewer.until(
                    lambda seen: seen.head.scheduler != first.head.scheduler and rows_of_one(seen), "it"
                )
                assert anew.number < again.number + 5
    assert not (tmp_path / "s_monitor").exists()


@contextlib.contextmanager
def closing(process: Scheduler | Cluster) -> Iterator[Any]:
    try:
        yield process
    finally:
        process.shutdown()
