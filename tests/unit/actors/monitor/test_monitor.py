"""The monitor of a whole scheduler, on a virtual clock: which screens are built, for which viewers, and when."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from scaler.actors.dependencies.waits import STEPS_MOST
from scaler.actors.messages.monitor import SubscriptionsChanged
from scaler.actors.monitor import About, Gauges
from scaler.actors.monitor.tasks import LINES_MOST
from scaler.actors.vocabulary.events import EVERY_TASK
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId, public_id
from scaler.wire.codec.codec import encode_message
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages import vocabulary
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, Task
from scaler.wire.messages.common import OutputStream, TaskStatus
from scaler.wire.messages.directions import SCHEDULER_TO_MONITOR
from scaler.wire.messages.monitor import (
    BIN_ROW,
    ENDED,
    FUNCTION_ROW,
    HAS_TASK,
    RUN_ROW,
    WORKER_ROW,
    StateAgent,
    StateBins,
    StateClient,
    StateCount,
    StateEvent,
    StateFailure,
    StateFunction,
    StateGraph,
    StateHead,
    StateLine,
    StateMove,
    StateNode,
    StateObject,
    StateScheduler,
    StateTask,
    StateVerdict,
    StateWaiting,
)
from scaler.wire.messages.worker import AgentState, RunOutput, RunTask, WatchedPart
from tests.support.simulation import FUNCTION_ID, Outcome, SimulatedAgent, SimulatedClient, Simulation

SHORT = public_id(FUNCTION_ID)


class Board:
    """A board that keeps what is shown."""

    def __init__(self) -> None:
        self.about = About("tcp://here:1", "1.2.3", 77, 1000)
        self.wanted: dict[str, None] = {}
        self.shown: list[tuple[str, Sequence[Any], int, int]] = []
        self.simulation: Simulation | None = None
        self.breaks = False

    def prefixes(self) -> Sequence[str]:
        return tuple(self.wanted)

    def publish(self, topic: str, items: Sequence[Any], shown: int, total: int) -> None:
        if self.breaks:
            self.breaks = False
            raise RuntimeError("the monitor fails")
        self.shown.append((topic, items, shown, total))

    def time_us(self) -> int:
        return 0 if self.simulation is None else int(self.simulation.clock() * 1e6)

    def read_traceback(self, payload: bytes) -> str:
        return f"traceback of {payload.decode()}"

    def gauges(self) -> Gauges:
        return Gauges(10, 20, 30, 40, 50)

    # For tests

    def want(self, *topics: str) -> None:
        for topic in topics:
            self.wanted[topic] = None
            self._tell(topic)

    def leave(self, *topics: str) -> None:
        for topic in topics:
            del self.wanted[topic]
            self._tell(None)

    def _tell(self, prefix: str | None) -> None:
        assert self.simulation is not None
        assert self.simulation.tree.monitor is not None
        self.simulation.tree.monitor.send(SubscriptionsChanged(prefix is not None))
        self.simulation.run()

    def take(self, kind: type) -> list[Any]:
        """Return the items of a kind in the last message with such items, and forget all messages."""
        messages = [[item for item in items if type(item) is kind] for _, items, _, _ in self.shown]
        self.shown.clear()
        return next((found for found in reversed(messages) if found), [])


Asked = tuple[SimulatedClient, TaskId, bytes]
"""A task of a client, and its graph, if it is in one."""


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def simulation(board: Board) -> Iterator[Simulation]:
    simulation = Simulation(board=board)
    board.simulation = simulation
    yield simulation
    assert simulation.escalations == []


def long(_run: RunTask) -> Outcome:
    return Outcome(seconds=100.0)


def failing(_run: RunTask) -> Outcome:
    return Outcome(TaskStatus.FAILED, b"boom")


def counts(board: Board, group: int) -> dict[str, int]:
    return {count.name: count.amount for count in board.take(StateCount) if count.group == group and count.amount}


def waiting_by_reason(board: Board) -> dict[str, int]:
    return {each.waits_for: each.waiting for each in board.take(StateWaiting) if each.waiting}


def test_no_screen_is_built_without_viewers(simulation: Simulation, board: Board) -> None:
    agent = simulation.agent(2)
    simulation.client().submit(10)
    simulation.advance(10.0)
    assert board.shown == []
    assert agent.watched == []
    assert simulation.tree.events.followed is None
    deadline = simulation.dispatcher.next_deadline()
    board.want("scheduler")
    board.leave("scheduler")
    simulation.advance(2.0)
    board.shown.clear()
    simulation.advance(10.0)
    assert board.shown == []
    assert deadline is not None


def test_ended_tasks_are_counted_without_viewers(simulation: Simulation, board: Board) -> None:
    agent, client = simulation.agent(2), simulation.client()
    client.submit(10)
    simulation.advance(5.0)
    agent.execute = failing
    client.submit(3)
    simulation.advance(5.0)
    agent.execute = long
    canceled = client.submit(4)
    simulation.run()
    client.cancel(*canceled)
    simulation.advance(5.0)
    board.want("scheduler")
    simulation.advance(0.1)
    (state,) = [item for _, items, _, _ in board.shown for item in items if type(item) is StateScheduler]
    assert (state.address, state.workers, state.agents, state.clients) == ("tcp://here:1", 2, 1, 1)
    assert (state.cpu_permille, state.rss_bytes, state.free_bytes, state.lag_us, state.lag_most_us) == (
        10,
        20,
        30,
        40,
        50,
    )
    assert counts(board, ENDED) == {"success": 10, "failed": 3, "canceled": 4}


def test_waiting_tasks_are_counted_by_reason(simulation: Simulation, board: Board) -> None:
    client = simulation.client()
    client.submit(3)
    board.want("scheduler", "clients")
    simulation.advance(1.0)
    assert waiting_by_reason(board) == {"no worker": 3}
    simulation.agent(1, long)
    client.submit(5)
    simulation.advance(1.0)
    (state,) = [item for _, items, _, _ in board.shown[-4:] for item in items if type(item) is StateScheduler]
    assert state.waiting + state.running == 8
    assert waiting_by_reason(board) == {"no room": state.waiting}
    simulation.advance(1.0)
    (shown,) = board.take(StateClient)
    assert (shown.open, shown.waiting) == (8, state.waiting)


def test_tasks_that_no_worker_can_take_and_nodes_without_inputs_are_counted_separately(
    simulation: Simulation, board: Board
) -> None:
    client = simulation.client()
    simulation.agent(1, long)
    client.submit(20)
    options = RunOptions(capabilities=(("tpu", 1),)).encode()
    client.say(*[Task(TaskId(bytes([n]) * 16), ObjectId(b"F" * 16), b"", b"", options=options) for n in range(3)])
    client.submit_graph([(), (0,), (1,)], [2])
    board.want("scheduler", "functions")
    simulation.advance(1.0)
    said = waiting_by_reason(board)
    assert (said["no worker can take it"], said["inputs"]) == (3, 2)
    assert said["no room"] > 10
    simulation.advance(1.0)
    waits_for = {each.waiting: each.waits_for for each in board.take(StateFunction)}
    assert waits_for[3] == "no worker can take it"
    assert set(waits_for.values()) == {"no worker can take it", "no room"}


def say_state(agent: SimulatedAgent, simulation: Simulation, **parts: Any) -> None:
    agent.say(AgentState("host", "processes", 4711, **parts))
    simulation.run()


def test_rows_of_workers_are_passed_on_unchanged(simulation: Simulation, board: Board) -> None:
    agent = simulation.agent(2)
    board.want("workers", "bins")
    assert [(each.interval_ms, each.parts) for each in agent.watched][-1] == (
        2000,
        WatchedPart.WORKERS | WatchedPart.BINS,
    )
    packed = WORKER_ROW.pack(990, 3, 2, 0, HAS_TASK, 2**28, SHORT, 5, 77) * 2
    first, second = BIN_ROW.pack(0, 5, 1, 0, 0, 0, SHORT), BIN_ROW.pack(1, 6, 2, 0, 0, 0, SHORT)
    say_state(agent, simulation, workers=packed, bins=first)
    say_state(agent, simulation, workers=packed, bins=second)
    simulation.advance(2.0)
    shown = {topic: items for topic, items, _, _ in board.shown if items}
    (state,) = shown["workers"]
    assert type(state) is StateAgent
    assert (state.workers, state.host, state.pid) == (packed, "host", 4711)
    bins = [item.bins for topic, items, _, _ in board.shown if topic == "bins" for item in items]
    assert bins == [first, second]
    board.shown.clear()
    simulation.advance(2.0)
    assert board.take(StateBins) == []


def test_storage_figures_of_an_agent_are_passed_on(simulation: Simulation, board: Board) -> None:
    agent = simulation.agent(1)
    board.want("workers")
    names = (
        "hot_bytes",
        "hot_most_bytes",
        "cold_bytes",
        "cold_most_bytes",
        "spilled_bytes",
        "read_bytes",
        "held_workers",
    )
    kept = dict(zip(names, range(1, 8), strict=True))
    say_state(agent, simulation, **kept)
    simulation.advance(2.0)
    (state,) = board.take(StateAgent)
    assert {name: getattr(state, name) for name in names} == kept


def test_agents_are_subscribed_to_when_they_join_and_when_they_reconnect(simulation: Simulation, board: Board) -> None:
    board.want("workers")
    agent = simulation.agent(1)
    assert len(agent.watched) == 1
    agent.connect()
    simulation.run()
    assert len(agent.watched) == 2
    board.leave("workers")
    assert agent.watched[-1].interval_ms == 0
    simulation.advance(10.0)
    assert len(agent.watched) == 3


def test_an_agent_that_does_not_report_is_shown_without_rows(simulation: Simulation, board: Board) -> None:
    simulation.agent(3)
    board.want("workers")
    simulation.advance(2.0)
    (state,) = board.take(StateAgent)
    assert state.workers == b""
    assert len(state.worker_names.split(",")) == 3


def function_row(here: int, runs: int, total_us: int, bucket: int) -> bytes:
    buckets = [0] * 32
    buckets[bucket] = runs
    return FUNCTION_ROW.pack(SHORT, here, total_us, total_us // runs, total_us // runs, *buckets)


def test_functions_are_added_up_over_agents(simulation: Simulation, board: Board) -> None:
    agents = [simulation.agent(1, long) for _ in range(2)]
    client = simulation.client()
    client.submit(5)
    simulation.run()
    board.want("functions")
    for agent in agents:
        say_state(agent, simulation, functions=function_row(1, 12, 1200, 7))
        say_state(agent, simulation, functions=function_row(1, 5, 550, 7))
    simulation.advance(1.0)
    (shown,) = board.take(StateFunction)
    assert (shown.function, shown.running, shown.success, shown.failed) == (SHORT, 2, 0, 0)
    assert (shown.runs, shown.run_us, shown.least_us, shown.most_us) == (34, 3500, 100, 110)
    assert struct.unpack("<32I", shown.durations)[7] == 34
    assert shown.waiting == 3


def test_equal_failures_are_shown_as_one_kind(simulation: Simulation, board: Board) -> None:
    simulation.agent(1, failing)
    client = simulation.client()
    client.submit(7)
    simulation.advance(5.0)
    board.want("failures")
    simulation.advance(0.1)
    (kind,) = board.take(StateFailure)
    assert (kind.type, kind.times, kind.function) == ("failed", 7, SHORT)
    assert kind.traceback == "traceback of boom"
    simulation.advance(2.0)
    assert board.take(StateFailure) == []


def test_a_viewer_of_tasks_sees_all_tasks_while_few_end(simulation: Simulation, board: Board) -> None:
    simulation.agent(1)
    board.want("tasks")
    assert simulation.tree.events.followed is EVERY_TASK
    (task_id,) = simulation.client().submit(1)
    simulation.advance(2.0)
    (shown,) = board.take(StateTask)
    assert (shown.task, shown.state, shown.attempt) == (public_id(task_id), "success", 1)
    assert shown.submitted_us <= shown.ended_us
    board.leave("tasks")
    assert simulation.tree.events.followed is None


@pytest.mark.thorough
def test_not_all_tasks_are_followed_while_many_end(simulation: Simulation, board: Board) -> None:
    simulation.agent(4, lambda _run: Outcome(seconds=0.004))
    board.want("tasks")
    simulation.client().submit(1000)
    simulation.advance(0.3)
    assert simulation.tree.events.followed is not EVERY_TASK
    simulation.advance(0.8)
    assert simulation.tree.events.followed is not EVERY_TASK
    simulation.advance(10.0)
    assert simulation.tree.events.followed is EVERY_TASK


def test_a_long_task_is_shown_although_many_end(simulation: Simulation, board: Board) -> None:
    agent = simulation.agent(1, long)
    (task_id,) = simulation.client().submit(1)
    simulation.run()
    board.want("tasks")
    say_state(agent, simulation, runs=RUN_ROW.pack(task_id, 0, HAS_TASK, 5000, SHORT))
    assert simulation.tree.events.followed == EVERY_TASK or task_id in (simulation.tree.events.followed or ())
    simulation.advance(1.0)
    (shown,) = board.take(StateTask)
    assert (shown.task, shown.state) == (public_id(task_id), "running")
    assert shown.started_us


def test_each_transition_of_a_task_is_shown_to_its_viewer(simulation: Simulation, board: Board) -> None:
    (task_id,) = simulation.client().submit(1)
    simulation.run()
    topic = f"task/{public_id(task_id).hex()}"
    board.want(topic)
    simulation.advance(1.2)
    assert [move.event for move in board.take(StateMove)] == ["seen"]
    simulation.agent(1)
    simulation.advance(2.0)
    moves = [
        item.event for name, items, _, _ in board.shown if name == topic for item in items if type(item) is StateMove
    ]
    assert moves == ["assigned", "finished"]


def test_output_of_a_task_is_shown_to_its_viewers(simulation: Simulation, board: Board) -> None:
    agent, client = simulation.agent(1, long), simulation.client()
    board.want("tasks")
    (task_id,) = client.submit(1)
    simulation.run()
    run = agent.started[-1]

    def write(*texts: str) -> None:
        agent.say(*(RunOutput(task_id, 0, run.attempt, OutputStream.LOGGING, 7, 0, text) for text in texts))
        simulation.advance(1.2)

    write(*map(str, range(LINES_MOST + 5)))
    assert board.take(StateLine) == []
    board.want(f"task/{public_id(task_id).hex()}")
    simulation.advance(0.2)
    lines = board.take(StateLine)
    assert (len(lines), lines[0].text, lines[0].dropped) == (LINES_MOST, "5", 5)
    assert (lines[-1].task, lines[-1].worker) == (public_id(task_id), f"{agent.agent_id[-1]}-0")
    write("new")
    assert [(line.text, line.dropped) for line in board.take(StateLine)] == [("new", 0)]
    simulation.advance(2.0)
    assert board.take(StateLine) == []


def test_graphs_and_their_nodes_are_shown(simulation: Simulation, board: Board) -> None:
    agent, client = simulation.agent(1, long), simulation.client()
    board.want("graphs")
    client.submit_graph([(), (), (0, 1)], [2])
    simulation.advance(2.0)
    (graph,) = board.take(StateGraph)
    assert (graph.nodes, graph.waiting, graph.running, graph.ended_us) == (3, 1, 2, 0)
    board.want(f"graph/{graph.graph.hex()}")
    simulation.advance(1.0)
    assert [node.state for node in board.take(StateNode)] == ["running", "running", "inactive"]
    assert agent.watched == []  # agents report nothing about graphs


def test_output_of_a_forgotten_task_is_shown(simulation: Simulation, board: Board) -> None:
    agent, client = simulation.agent(1, long), simulation.client()
    (task_id,) = client.submit(1)
    simulation.run()
    agent.say(RunOutput(task_id, 0, agent.started[-1].attempt, OutputStream.LOGGING, 7, 0, "kept"))
    client.cancel(task_id)
    simulation.advance(1.0)
    assert simulation.task(task_id) is None
    board.want(f"task/{public_id(task_id).hex()}")
    simulation.advance(0.2)
    assert [line.text for line in board.take(StateLine)] == ["kept"]


def test_a_shown_task_of_a_graph_names_its_graph(simulation: Simulation, board: Board) -> None:
    simulation.agent(2, long)
    client = simulation.client()
    board.want("tasks")
    (alone,) = client.submit(1)
    graph_id = client.submit_graph([()], [0])
    simulation.advance(1.2)
    shown = {task.task: task.graph for task in board.take(StateTask)}
    assert shown.pop(public_id(alone)) == b""
    assert list(shown.values()) == [public_id(graph_id)]


def test_tasks_graphs_and_objects_are_shown_with_their_owners_also_if_nested(
    simulation: Simulation, board: Board
) -> None:
    agent = simulation.agent(4, long)
    simulation.client(user="bob")
    root = simulation.client(user="alice", label="night run, alice@ws14")
    nested = simulation.nested_client(agent)
    account = simulation.tree.directory.accounts.of(root.client_id)
    for topic in ("tasks", "graphs", "objects"):
        board.want(topic)
    root.submit(1)
    nested.submit(1, account=account)
    nested.submit_graph([()], [0], account=account)
    nested.create(b"x" * 1000, "large")
    simulation.advance(1.2)
    shown = [item for _, items, _, _ in board.shown for item in items]
    kinds = {type(each) for each in shown if getattr(each, "client_label", "") == root.label and each.owner == "alice"}
    assert kinds == {StateTask, StateGraph}
    assert {each.owner for each in shown if type(each) is StateTask} == {"alice"}
    assert {each.owner for each in shown if type(each) is StateObject and each.name == "large"} == {"alice"}


def test_the_largest_objects_are_shown_first(simulation: Simulation, board: Board) -> None:
    client = simulation.client()
    client.create(b"x" * 10)
    client.create(b"x" * 1000, "large")
    simulation.run()
    board.want("objects")
    simulation.advance(0.1)
    objects = board.take(StateObject)
    assert objects
    assert objects[0].name == "large"
    assert objects == sorted(objects, key=lambda each: each.size_bytes, reverse=True)
    table = simulation.tree.objects
    assert table.size_bytes == sum(stored.size_bytes for stored in table.objects.values())


def test_events_of_peers_that_joined_and_lost_connections_are_shown(simulation: Simulation, board: Board) -> None:
    agent = simulation.agent(1)
    agent.cut()
    simulation.advance(30.0)
    board.want("events")
    simulation.advance(0.1)
    kinds = [event.kind for event in board.take(StateEvent)]
    assert kinds[:2] == ["came", "cut"]
    simulation.advance(3.0)
    assert all(topic != "events" for topic, _, _, _ in board.shown)  # nothing is new


def test_failures_of_the_monitor_do_not_affect_tasks(simulation: Simulation, board: Board) -> None:
    simulation.agent(1)
    board.want("scheduler")
    for _ in range(20):
        board.breaks = True
        simulation.advance(6.0)
    client = simulation.client()
    client.submit(5)
    board.shown.clear()
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 5
    assert board.take(StateScheduler)
    assert simulation.dispatcher.failures == 20


def submit(simulation: Simulation, count: int, **options: Any) -> tuple[SimulatedClient, TaskId]:
    client = simulation.client()
    client.options = RunOptions(**options).encode()
    return client, client.submit(count)[-1]


def without_worker(simulation: Simulation) -> Asked:
    return *submit(simulation, 1), NO_ID


def that_no_worker_can_take(simulation: Simulation) -> Asked:
    simulation.agent(1, long)
    return *submit(simulation, 1, capabilities=(("gpu", 3),)), NO_ID


def that_is_taken(simulation: Simulation) -> Asked:
    simulation.agent(3, long)
    return *submit(simulation, 2, capabilities=(("gpu", 2),)), NO_ID


def without_capacity(simulation: Simulation) -> Asked:
    simulation.agent(1, long)
    return *submit(simulation, 3), NO_ID


def at_a_worker(simulation: Simulation) -> Asked:
    simulation.agent(1, long)
    return *submit(simulation, 1), NO_ID


def with_children(simulation: Simulation) -> Asked:
    agent = simulation.agent(1, long)
    client, task_id = submit(simulation, 1)
    simulation.run()
    agent.suspend(task_id)
    return client, task_id, NO_ID


def cancelled(simulation: Simulation) -> Asked:
    agent = simulation.agent(1, long)
    client, task_id = submit(simulation, 1)
    simulation.run()
    agent.hang()
    client.cancel(task_id)
    return client, task_id, NO_ID


def before_a_retry(simulation: Simulation) -> Asked:
    failure = TaskFailure("OSError", "no", "...", b"", ("Exception",)).encode()
    simulation.agent(1, lambda _run: Outcome(TaskStatus.FAILED, failure))
    client, task_id = submit(simulation, 1, retries=1, retry_on=("OSError",), retry_delay_ms=100_000)
    simulation.advance(0.1)
    return client, task_id, NO_ID


def with_another_scheduler(simulation: Simulation) -> Asked:
    client, task_id = submit(simulation, 1)
    simulation.run()
    simulation.restart()
    client.connect()
    return client, task_id, NO_ID


def last_of_a_long_chain(simulation: Simulation) -> Asked:
    client = simulation.client()
    length = STEPS_MOST + 2
    graph_id = client.submit_graph([(), *((n,) for n in range(length - 1))], [length - 1])
    return client, client.submitted[-1], graph_id


WAITING = {
    vocabulary.NO_WORKER: without_worker,
    vocabulary.NOT_ABLE: that_no_worker_can_take,
    vocabulary.TAKEN: that_is_taken,
    vocabulary.NO_ROOM: without_capacity,
    vocabulary.WORKER: at_a_worker,
    vocabulary.CHILDREN: with_children,
    vocabulary.CANCEL: cancelled,
    vocabulary.RETRY: before_a_retry,
    vocabulary.LAST_SCHEDULER: with_another_scheduler,
    vocabulary.INPUTS: last_of_a_long_chain,
}
QUEUED = (vocabulary.NO_WORKER, vocabulary.NOT_ABLE, vocabulary.TAKEN, vocabulary.NO_ROOM)
BY_CLIENTS = {vocabulary.NO_SCHEDULER, vocabulary.WINDOW, vocabulary.TRANSFER, vocabulary.ENDED, vocabulary.UNKNOWN}

IN_SUM = {vocabulary.QUOTA}
"""Viewers see the number of tasks that wait for this, and no single task: these have not started."""


def test_each_reason_that_the_scheduler_reports_is_shown() -> None:
    every = {value for name, value in vars(vocabulary).items() if name.isupper() and isinstance(value, str)}
    every -= set(vocabulary.OUTCOMES.values())
    assert every == {*WAITING, *BY_CLIENTS, *IN_SUM, vocabulary.TURN}  # a turn has ended before any screen is built


@pytest.mark.parametrize("reason", WAITING)
def test_viewers_see_the_sentence_that_the_client_gets(
    simulation: Simulation, board: Board, reason: vocabulary.Reason
) -> None:
    client, task_id, graph_id = WAITING[reason](simulation)
    simulation.run()
    board.want("scheduler", "functions", f"task/{public_id(task_id).hex()}")
    simulation.advance(2.2)
    client.say(ExplainRequest(task_id, GraphId(graph_id)))
    simulation.advance(0.1)
    answer = client.said(ExplainResponse)[-1]
    assert answer.waits_for == reason
    groups = {each.waits_for: each.sentence for _, items, _, _ in board.shown for each in items if is_waiting(each)}
    functions = {each.waits_for for _, items, _, _ in board.shown for each in items if type(each) is StateFunction}
    shown = board.take(StateTask)[-1]
    assert (shown.task, shown.state) == (public_id(task_id), answer.state)
    address = "tcp://here:1"
    sentence = answer.sentence.replace("ADDRESS", address)
    assert without_times(shown.reason) == without_times(sentence)
    if reason in QUEUED:
        assert without_times(sentence).startswith(without_times(groups[reason]))
        assert functions == {reason}
    elif reason == vocabulary.INPUTS:
        assert set(groups) == {vocabulary.INPUTS, vocabulary.NO_WORKER}
    else:
        assert groups == {}


def is_waiting(item: object) -> bool:
    return isinstance(item, StateWaiting) and item.waiting > 0


def without_times(sentence: str) -> str:
    return re.sub(r"; it has waited for .*|\d+ (s|min|h)\b", "", sentence)


def test_the_verdict_awaits_the_first_reports_of_agents(simulation: Simulation, board: Board) -> None:
    agent = simulation.agent(2)
    agent.execute = long
    simulation.client().submit(4)
    board.want("scheduler")
    simulation.advance(1.5)
    assert board.take(StateVerdict) == []
    say_state(agent, simulation, workers=WORKER_ROW.pack(0, 2, 1, 0, HAS_TASK, 0, bytes(8), 5, 0) * 2)
    simulation.advance(1.0)
    (verdict,) = board.take(StateVerdict)
    assert verdict.word == "workers"
    assert verdict.sentence.startswith("2 wait: all 2 workers are full, with 2 tasks; it starts when")


def test_without_reports_the_verdict_is_made_of_what_is_known(simulation: Simulation, board: Board) -> None:
    simulation.agent(2)
    board.want("scheduler")
    simulation.advance(4.5)
    assert [each.word for each in board.take(StateVerdict)] == ["idle"]


def test_counters_are_kept_before_the_first_viewer(simulation: Simulation, board: Board) -> None:
    """The recent rate, and the time of the last end, are known as soon as a viewer subscribes."""
    simulation.agent(2)
    client = simulation.client()
    for _ in range(20):
        client.submit(5)
        simulation.advance(1.0)
    ended_us = board.time_us()
    simulation.advance(5.0)
    board.want("scheduler")
    simulation.advance(4.5)
    (verdict,) = board.take(StateVerdict)
    assert verdict.word == "idle"
    assert abs(verdict.idle_since_us - ended_us) <= 1_000_000


def test_durations_that_no_run_can_have_do_not_end_the_monitor(simulation: Simulation, board: Board) -> None:
    agent = simulation.agent(1)
    agent.execute = long
    simulation.client().submit(3)
    board.want("scheduler", "functions")
    most, row = 2**64 - 1, FUNCTION_ROW.unpack(bytes(FUNCTION_ROW.size))
    hostile = FUNCTION_ROW.pack(SHORT, 1, most, *row[3:5], *[2**32 - 1] * 32)
    for _ in range(3):
        say_state(agent, simulation, functions=hostile, workers=WORKER_ROW.pack(0, 1, 0, 65535, 2, 0, SHORT, 5, 0))
        simulation.advance(1.0)
    items = [item for _, items, _, _ in board.shown for item in items]
    encode_message(SCHEDULER_TO_MONITOR, [StateHead(), *items], 1)
    assert [each.run_us for each in items if type(each) is StateFunction][-1] == most
