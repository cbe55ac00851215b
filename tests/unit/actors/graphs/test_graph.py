"""Graphs against the whole scheduler; the audits of the simulation run at every step."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

from scaler.actors.graphs.graph import GraphActor
from scaler.actors.graphs.graph_node import SHARED_BYTES
from scaler.actors.graphs.graph_values import WORTH_A_PLACE_BYTES
from scaler.actors.slices import SLICE_STEPS
from scaler.actors.tree import BALANCER
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.pickling.serialization import BLOCK_BYTES, OBJECT, VALUE, WORTH_AN_OBJECT_BYTES, argument_block
from scaler.shared_memory import SharedBlock
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import GraphNode, GraphTask, GraphTaskCancel, TaskCancel
from scaler.wire.messages.common import PROFILE, InstructionKind, ObjectInstruction, TaskStatus
from scaler.wire.messages.vocabulary import split_failed_input
from scaler.wire.messages.worker import RunTask
from tests.support.configs import scheduler_config
from tests.support.simulation import Execute, Outcome, SimulatedClient, Simulation, succeed

OBJECT_ID = ObjectId(b"o" * 16)
DIAMOND = [(), (0,), (0,), (1, 2)]


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


def large(_run: RunTask) -> Outcome:
    return Outcome(payload=b"", frames=(b"large", b"result"))


def node(client: SimulatedClient, graph_id: GraphId, task_id: TaskId) -> GraphNode:
    """Return a node without dependencies, whose result the client wants."""
    return GraphNode(graph_id, task_id, client.function_id, b"", b"", b"", 1)


def leave_and_check(simulation: Simulation, client: SimulatedClient) -> None:
    client.leave()
    simulation.advance(1.0)
    simulation.check_empty()


def test_nodes_run_when_their_arguments_exist_and_only_wanted_results_travel(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    graph_id = client.submit_graph(DIAMOND, [3])
    simulation.advance(5.0)
    nodes = [node.task_id for node in client.graphs[graph_id]]
    assert [run.task_id for run in agent.started] == [nodes[0], *nodes[1:3], nodes[3]]
    assert agent.started[-1].payload == argument_block(VALUE, b"done") * 2
    assert list(client.results) == [nodes[3]]
    assert client.surplus == []
    assert simulation.living_graphs() == []
    leave_and_check(simulation, client)


@pytest.mark.parametrize("ends", ["complete", "cancelled", "client left"])
def test_objects_of_a_graph_stay_until_all_nodes_that_may_name_them_have_arrived(
    simulation: Simulation, ends: str
) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    graph_id, store = GraphId(b"g" * 16), simulation.tree.objects
    first, second = (replace(node(client, graph_id, TaskId(bytes([n]) * 16)), object_ids=OBJECT_ID) for n in (1, 2))
    client.say(ObjectInstruction(InstructionKind.CREATE_FOR_TASK, OBJECT_ID, "", [b"content"]), GraphTask(graph_id, 2))
    client.say(first)
    simulation.advance(1.0)
    assert [result.task_id for result in client.surplus] == [first.task_id]
    assert OBJECT_ID in store.objects
    if ends == "complete":
        client.say(second)
    elif ends == "cancelled":
        client.say(GraphTaskCancel(graph_id))
    else:
        client.leave()
    simulation.advance(1.0)
    assert len(agent.started) == (2 if ends == "complete" else 1)
    assert OBJECT_ID not in store.objects
    assert simulation.living_graphs() == []
    leave_and_check(simulation, client)


def test_a_node_whose_result_is_no_longer_needed_does_not_run_and_its_objects_are_deleted(
    simulation: Simulation,
) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    graph_id, store = GraphId(b"g" * 16), simulation.tree.objects
    first, second, third = (
        replace(node(client, graph_id, TaskId(bytes([number]) * 16)), object_ids=OBJECT_ID) for number in (1, 2, 3)
    )
    client.say(ObjectInstruction(InstructionKind.CREATE_FOR_TASK, OBJECT_ID, "", [b"content"]), GraphTask(graph_id, 3))
    client.say(replace(first, function_id=ObjectId(NO_ID), wanted=0))
    simulation.advance(1.0)
    assert OBJECT_ID in store.objects
    client.say(second, replace(third, dependencies=bytes(4)))  # which it should not
    simulation.advance(1.0)
    assert [run.task_id for run in agent.started] == [second.task_id]
    statuses = {result.task_id: result.status for result in client.surplus}
    assert statuses == {second.task_id: TaskStatus.SUCCESS, third.task_id: TaskStatus.CANCELED}
    assert OBJECT_ID not in store.objects
    assert simulation.living_graphs() == []
    leave_and_check(simulation, client)


def test_a_graph_that_has_ended_is_freed_without_the_garbage_collector(
    simulation: Simulation, request: pytest.FixtureRequest
) -> None:
    client, _agent = simulation.client(), simulation.agent(2)
    gc.disable()
    request.addfinalizer(gc.enable)
    client.submit_graph(DIAMOND, [3])
    simulation.advance(0.05)
    freed = [weakref.ref(each) for each in simulation.living_graphs()]
    assert freed
    simulation.advance(5.0)
    assert [each() for each in freed] == [None]


def test_a_large_result_is_an_object_until_its_last_consumer_has_ended(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, large)
    graph_id = client.submit_graph(DIAMOND, [3])
    simulation.advance(0.15)
    first, *_ = (node.task_id for node in client.graphs[graph_id])
    assert ObjectId(first) in simulation.tree.objects.objects
    assert {run.object_ids for run in agent.started[1:3]} == {first}
    assert {run.payload for run in agent.started[1:3]} == {argument_block(OBJECT, first)}
    simulation.advance(5.0)
    assert list(simulation.tree.objects.objects) == [client.function_id, client.submitted[0]]
    assert client.results[client.submitted[0]].size == len(b"largeresult")
    client.delete(ObjectId(client.submitted[0]))
    leave_and_check(simulation, client)


def test_the_agent_that_has_a_large_result_keeps_it_while_a_node_needs_it(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, large)
    client.submit_graph([(), (0,), (0,)], [1, 2])
    simulation.advance(0.05)
    other = simulation.agent(1, slow)
    simulation.advance(0.1)
    first = ObjectId(agent.started[0].task_id)
    assert agent.kept & {first} == {first}
    simulation.advance(100.0)
    assert first in agent.forgotten
    assert first not in agent.kept | other.kept


@pytest.mark.parametrize(("size", "is_near"), [(WORTH_A_PLACE_BYTES, True), (WORTH_A_PLACE_BYTES - 1, False)])
def test_nodes_that_need_a_very_large_result_run_where_it_was_made(
    simulation: Simulation, size: int, is_near: bool
) -> None:
    """The other worker became free later, so without the large result it would be the next one."""
    client = simulation.client()
    client.submit_graph([(), (), (0, 1)], [0, 1, 2])
    made, awaited, last = client.submitted
    outcomes = {made: Outcome(payload=b"", frames=(bytes(size),)), awaited: Outcome(seconds=0.3), last: Outcome()}
    agents = [simulation.agent(1, lambda run: outcomes[run.task_id]) for _ in range(2)]
    simulation.advance(10.0)
    places = {run.task_id: agent for agent in agents for run in agent.started}
    assert places[made] is not places[awaited]
    assert (places[last] is places[made]) == is_near


def test_a_large_result_that_is_wanted_and_needed_outlives_both(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, large)
    client.submit_graph([(), (0,)], [0, 1])
    simulation.advance(5.0)
    client.fetch(ObjectId(client.submitted[0]))
    simulation.run()
    assert client.fetched[ObjectId(client.submitted[0])] == b"largeresult"
    leave_and_check(simulation, client)


def test_results_that_are_too_large_together_for_one_message_become_objects(simulation: Simulation) -> None:
    client = simulation.client()
    value = b"v" * 8192
    agent = simulation.agent(2, lambda _run: Outcome(payload=value))
    count = BLOCK_BYTES // len(value) + 4
    client.submit_graph([*[()] * count, range(count)], [count])
    simulation.advance(50.0)
    run = agent.started[-1]
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert len(run.payload) < BLOCK_BYTES + count * 32
    assert len(run.object_ids) > 0
    leave_and_check(simulation, client)


FAN_OUT = 3 * SLICE_STEPS
WIDE = [(), *[(0,)] * FAN_OUT]


def test_very_many_consumers_are_started_in_slices() -> None:
    simulation = Simulation(audited=False)
    client, agent = simulation.client(), simulation.agent(1)
    client.submit_graph(WIDE, [FAN_OUT])
    simulation.run()
    (graph,) = simulation.graphs()
    most = 0
    simulation.clock.advance(0.1)
    agent.on_time(simulation.clock())
    simulation.edge.receive()
    while not graph._running or len(graph._running) < FAN_OUT:
        before = len(graph._running)
        simulation.dispatcher.run(1)
        most = max(most, len(graph._running) - before)
    assert SLICE_STEPS - 1 <= most <= SLICE_STEPS
    simulation.advance(200.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    leave_and_check(simulation, client)


@pytest.mark.parametrize("later", [0, SLICE_STEPS + 5])
def test_a_wide_graph_that_is_cancelled_while_its_nodes_start(simulation: Simulation, later: int) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    client.submit_graph([*WIDE, *[(0,)] * later], [1, FAN_OUT])
    simulation.run()
    simulation.clock.advance(0.1)
    agent.on_time(simulation.clock())
    simulation.edge.receive()
    (graph,) = simulation.graphs()
    while not graph._slices:
        simulation.dispatcher.run(1)
    client.cancel(client.submitted[0])
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.CANCELED] * 2
    assert simulation.living_graphs() == []
    leave_and_check(simulation, client)


def test_very_many_nodes_fail_with_the_node_that_they_need(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, lambda _run: Outcome(TaskStatus.FAILED, b"why"))
    client.submit_graph(WIDE, range(len(WIDE)))
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.FAILED] * len(WIDE)
    assert simulation.living_graphs() == []
    leave_and_check(simulation, client)


@pytest.mark.parametrize("size", [WORTH_AN_OBJECT_BYTES - 1, WORTH_AN_OBJECT_BYTES, 8192])
def test_a_small_result_becomes_an_object_if_many_nodes_need_it(simulation: Simulation, size: int) -> None:
    client = simulation.client()
    value = b"v" * size
    agent = simulation.agent(1, lambda _run: Outcome(payload=value))
    count = SHARED_BYTES // size + 1
    client.submit_graph([(), *[(0,)] * count], [count])
    simulation.advance(100.0)
    first = client.graphs[next(iter(client.graphs))][0].task_id
    is_object = size >= WORTH_AN_OBJECT_BYTES
    expected = argument_block(OBJECT, first) if is_object else argument_block(VALUE, value)
    assert {run.payload for run in agent.started[1:2]} == {expected}
    if is_object:  # the remaining nodes may carry it again
        assert sum(len(run.payload) for run in agent.started[1:]) <= SHARED_BYTES + count * 64
    assert client.statuses() == [TaskStatus.SUCCESS]
    client.delete(ObjectId(client.submitted[0]))
    leave_and_check(simulation, client)


def test_the_nodes_of_a_graph_have_its_name_and_options(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.name, client.options = "nightly", RunOptions(profiling=True, retries=3).encode()
    client.submit_graph(DIAMOND, [0, 3])
    simulation.advance(5.0)
    assert {(run.name, run.options) for run in agent.started} == {("nightly", client.options)}
    assert [client.results[task_id].profile for task_id in client.submitted] == [PROFILE.pack(100_000, 0, 0)] * 2
    client.options = b""
    client.submit_graph(DIAMOND, [3])
    simulation.advance(5.0)
    assert client.results[client.submitted[-1]].profile == b""
    leave_and_check(simulation, client)


def test_a_failed_node_fails_its_dependents_with_its_error_and_other_nodes_run(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit_graph([(), (0,), (1,), (), (3,)], range(5))
    bad = client.submitted[0]
    simulation.agent(2, lambda run: Outcome(TaskStatus.FAILED, b"why") if run.task_id == bad else Outcome())
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.FAILED] * 3 + [TaskStatus.SUCCESS] * 2
    assert {client.results[task_id].payload for task_id in client.submitted[:3]} == {b"why"}
    leave_and_check(simulation, client)


def test_dependents_of_a_node_that_failed_without_an_exception_end_with_its_id(simulation: Simulation) -> None:
    client = simulation.client()
    graph_id = GraphId(b"g" * 16)
    first, second, third = (node(client, graph_id, TaskId(bytes([number]) * 16)) for number in (1, 2, 3))
    simulation.agent(1, lambda _run: Outcome(TaskStatus.TIMED_OUT, b"too long"))
    client.say(GraphTask(graph_id, 3), first)
    simulation.advance(5.0)
    client.say(replace(second, dependencies=bytes(4)), replace(third, dependencies=(1).to_bytes(4, "little")))
    simulation.advance(5.0)
    payloads = {result.task_id: result.payload for result in client.surplus}
    assert split_failed_input(payloads[first.task_id]) == (b"", b"too long")
    assert split_failed_input(payloads[second.task_id]) == (first.task_id, b"too long")
    assert split_failed_input(payloads[third.task_id]) == (first.task_id, b"too long")
    leave_and_check(simulation, client)


def test_nodes_that_continue_a_graph_run_before_waiting_nodes(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    graph_id = client.submit_graph([(), (), (), (), (), (0, 1)], range(6))
    simulation.run()
    (other,) = client.submit(1)
    simulation.advance(300.0)
    nodes = [node.task_id for node in client.graphs[graph_id]]
    assert [run.task_id for run in agent.started] == [*nodes[:2], nodes[5], *nodes[2:5], other]


def test_a_refused_node_fails_its_whole_graph_and_no_other_task() -> None:
    simulation = Simulation(scheduler_config(max_number_of_tasks_waiting=1, per_worker_queue_size=1))
    client = simulation.client()
    agent = simulation.agent(1, slow)
    (plain,) = client.submit(1)
    simulation.advance(1.0)
    client.submit_graph([(), (), (1,), ()], range(4))
    simulation.advance(1.0)
    assert client.statuses()[1:] == [TaskStatus.NO_WORKER] * 4
    assert len({client.results[node].payload for node in client.submitted[1:]}) == 1
    simulation.advance(200.0)
    assert client.statuses([plain]) == [TaskStatus.SUCCESS]
    assert [run.task_id for run in agent.started] == [plain]
    leave_and_check(simulation, client)


def test_a_graph_refused_while_it_runs_stops_its_running_nodes_and_refuses_later_ones() -> None:
    simulation = Simulation(scheduler_config(max_number_of_tasks_waiting=0, per_worker_queue_size=1))
    client, agent = simulation.client(), simulation.agent(1, slow)
    graph_id = client.submit_graph([()], [])
    simulation.advance(40.0)
    first, second, late = (TaskId(simulation.new_id(b"node")) for _ in range(3))
    client.open = dict.fromkeys((first, second, late), graph_id)
    client.say(GraphTask(graph_id, 3), *(node(client, graph_id, each) for each in (first, second)))
    simulation.advance(1.0)
    assert client.statuses([first, second, late]) == [TaskStatus.NO_WORKER, TaskStatus.NO_WORKER, None]
    assert agent.queued == []
    client.say(node(client, graph_id, late))
    simulation.advance(1.0)
    assert client.statuses([late]) == [TaskStatus.NO_WORKER]
    assert simulation.living_graphs() == []
    leave_and_check(simulation, client)


def test_a_cancelled_graph_ends_all_its_nodes_and_frees_the_workers(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit_graph([*DIAMOND, ()], range(5))
    simulation.advance(1.0)
    client.cancel(client.submitted[3])
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.CANCELED] * 5
    assert agent.queued == []
    assert simulation.living_graphs() == []
    leave_and_check(simulation, client)


def test_the_graphs_of_a_lost_client_are_removed(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit_graph(DIAMOND, [3], for_task=b"the graph's own")
    simulation.advance(1.0)
    client.die()
    simulation.advance(6.0)
    simulation.check_empty()
    assert agent.queued == []


def test_a_graph_that_is_resubmitted_after_a_lost_connection_runs_once(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    client.submit_graph(DIAMOND, [0, 3])
    simulation.advance(0.15)
    assert client.statuses() == [TaskStatus.SUCCESS, None]
    client.connect()
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert len(agent.started) == 4
    assert len(client.surplus) == 1, "a new session started, and the client may not have received the first result"


def test_a_graph_result_that_was_lost_with_the_connection_is_resent(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    client.submit_graph([*DIAMOND, (3,)], [0, 4])
    simulation.advance(0.05)
    client.cut()
    simulation.advance(0.1)
    assert client.statuses() == [None, None]
    client.connect()
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert len(agent.started) == 5


def test_a_crashed_node_is_run_again(simulation: Simulation) -> None:
    client = simulation.client()
    crashes = [Outcome(TaskStatus.PROCESSOR_DIED, b"it died")] * 2
    simulation.agent(1, lambda _run: crashes.pop() if crashes else Outcome())
    client.submit_graph([(), (0,)], [1])
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_a_balancer_that_fails_forgets_no_node() -> None:
    simulation = Simulation()
    client = simulation.client()
    client.submit_graph(DIAMOND, [3])
    simulation.run()
    simulation.fail(simulation.tree.supervisor.children[BALANCER])
    simulation.advance(1.0)
    simulation.agent(1)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_a_graph_actor_that_fails_fails_the_futures_of_its_graph_and_no_other() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit_graph(DIAMOND, [0, 3], for_task=b"the graph's own")
    (plain,) = client.submit(1)
    simulation.advance(1.0)
    (graph,) = simulation.graphs()
    simulation.fail(graph.actor_ref)
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.INTERNAL_ERROR, TaskStatus.INTERNAL_ERROR, TaskStatus.SUCCESS]
    assert client.results[plain].payload == b"done"
    assert agent.queued == []
    leave_and_check(simulation, client)


def test_a_task_actor_of_a_graph_that_fails_is_a_failed_node() -> None:
    simulation = Simulation()
    client = simulation.client()
    client.submit_graph([(), (0,), ()], range(3))
    simulation.run()
    (graph,) = simulation.graphs()
    task_id = client.submitted[0]
    simulation.fail(graph._running[task_id][1])
    simulation.agent(1)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.INTERNAL_ERROR, TaskStatus.INTERNAL_ERROR, TaskStatus.SUCCESS]
    leave_and_check(simulation, client)


@pytest.mark.parametrize(
    ("block", "dependencies"),
    [
        (b"", b"\1\0\0\0"),  # itself
        (argument_block(2, b"\7\0\0\0"), b"\0\0\0\0"),  # not among its dependencies
        (b"\2\0\0\4\0\0\0", b"\0\0\0\0"),  # cut off
    ],
)
def test_a_malformed_node_fails_alone(simulation: Simulation, block: bytes, dependencies: bytes) -> None:
    client = simulation.client()
    simulation.agent(1, slow)
    graph_id = client.submit_graph([()], [0])
    simulation.advance(40.0)
    good, bad = (TaskId(simulation.new_id(b"node")) for _ in range(2))
    client.open = dict.fromkeys((good, bad), graph_id)
    client.say(
        GraphTask(graph_id, 2),
        node(client, graph_id, good),
        GraphNode(graph_id, bad, client.function_id, block, b"", dependencies, 1),
    )
    simulation.advance(40.0)
    assert client.statuses([good, bad]) == [TaskStatus.SUCCESS, TaskStatus.INTERNAL_ERROR]
    assert simulation.dispatcher.failures == 0
    leave_and_check(simulation, client)


def test_nodes_of_an_unknown_graph_are_refused(simulation: Simulation) -> None:
    client = simulation.client()
    task_id = TaskId(b"n" * 16)
    client.open = {task_id: GraphId(b"?" * 16)}
    client.say(GraphNode(GraphId(b"?" * 16), task_id, client.function_id, b"", b"", b"", 1))
    simulation.run()
    assert client.statuses([task_id]) == [TaskStatus.NOT_FOUND]


def test_surplus_nodes_and_an_empty_graph_are_harmless(simulation: Simulation) -> None:
    client = simulation.client()
    client.say(GraphTask(GraphId(b"0" * 16), 0))
    client.say(GraphTask(GraphId(b"1" * 16), 1))
    nodes = [
        GraphNode(GraphId(b"1" * 16), TaskId(bytes([n]) * 16), client.function_id, b"", b"", b"", 0) for n in (1, 2)
    ]
    client.say(*nodes)
    simulation.run()
    assert [len(graph._nodes) for graph in simulation.graphs()] == [1]
    leave_and_check(simulation, client)


def test_a_cancel_of_a_single_node_is_ignored(simulation: Simulation) -> None:
    """Clients cancel graphs as a whole."""
    client = simulation.client()
    simulation.agent(1)
    client.submit_graph([()], [0])
    client.say(TaskCancel(client.submitted[0]))
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_statistics_count_nodes(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit_graph(DIAMOND, [3])
    simulation.run()
    (graph,) = simulation.graphs()
    assert isinstance(graph, GraphActor)
    assert graph.statistics() == {"nodes": 4, "open_nodes": 4, "running_nodes": 1}


def test_graphs_of_which_no_node_arrives_are_limited_in_number_and_other_graphs_run(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.sessions.client_graphs.WITHOUT_NODES_MOST", 3)
    client = simulation.client()
    simulation.agent(1)
    graphs = [GraphId(bytes([number]) * 16) for number in range(10)]
    tasks = [TaskId(bytes(each)) for each in graphs[:5]]
    client.open = dict(zip(tasks, graphs, strict=False))
    for each in graphs[5:]:  # these end at once
        client.say(GraphTask(each, 0))
        simulation.run()
    client.say(*(GraphTask(each, 1) for each in graphs[:5]))
    simulation.run()
    assert len(simulation.graphs()) == 3
    client.say(*(node(client, graph, task) for graph, task in zip(graphs, tasks, strict=False)))
    simulation.advance(5.0)
    assert client.statuses(tasks) == [TaskStatus.SUCCESS] * 3 + [TaskStatus.NOT_FOUND] * 2
    client.say(GraphTask(graphs[5], 1), GraphTaskCancel(graphs[5]))
    simulation.run()
    client.say(*(GraphTask(each, 1) for each in graphs[6:10]))
    simulation.run()
    assert len(simulation.graphs()) == 3
    leave_and_check(simulation, client)


@pytest.mark.parametrize("ends", ["complete", "cancelled", "client left"])
def test_frames_of_a_node_travel_with_its_task_and_count_as_memory_until_then(
    simulation: Simulation, ends: str
) -> None:
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=3.0))
    graph_id, table = GraphId(b"g" * 16), simulation.tree.objects
    before = table.size_bytes
    first, second = (
        replace(node(client, graph_id, TaskId(bytes([n]) * 16)), frames=(bytes(100 * n), b"2")) for n in (1, 2)
    )
    client.say(GraphTask(graph_id, 2), first, replace(second, dependencies=bytes(4)))
    simulation.advance(1.0)
    assert table.size_bytes == before + 302
    if ends == "client left":
        client.leave()
    elif ends == "cancelled":
        client.say(GraphTaskCancel(graph_id))
    simulation.advance(20.0)
    assert [list(map(bytes, run.frames)) for run in agent.started] == [
        list(each.frames) for each in ([first, second] if ends == "complete" else [first])
    ]
    assert table.size_bytes == (0 if ends == "client left" else before)


def located(_run: RunTask) -> Outcome:
    return Outcome(payload=b"", location=SharedBlock.of([bytes(100_000)]).location())


def in_turn(*executes: Execute) -> Execute:
    """Run each run with the next one of `executes`."""
    left = iter(executes)

    def execute(run: RunTask) -> Outcome:
        return next(left)(run)

    return execute


def test_a_graph_whose_values_were_lost_with_their_agent_is_to_be_resubmitted(simulation: Simulation) -> None:
    client = simulation.client()
    graph_id = client.submit_graph([(), (0,), (1,)], [2])
    agent = simulation.agent(1, in_turn(located, slow))
    simulation.advance(1.0)
    assert len(agent.started) == 2
    agent.leave()
    simulation.advance(1.0)
    assert client.lost == [graph_id]
    assert client.results == {}
    leave_and_check(simulation, client)


def test_late_nodes_of_a_lost_graph_do_not_fail_since_the_client_submits_the_graph_again(
    simulation: Simulation,
) -> None:
    client = simulation.client()
    graph_id = client.submit_graph([(), (0,), (1,)], [2])
    agent = simulation.agent(1, in_turn(located, slow))
    simulation.advance(1.0)
    nodes = client.graphs.pop(graph_id)  # so that it is not submitted again at once
    agent.leave()
    simulation.advance(1.0)
    assert client.lost == [graph_id]
    client.say(*nodes)  # the end of a second submission, which began before the loss was reported
    simulation.advance(1.0)
    assert client.results == {}
    client.graphs[graph_id] = nodes
    simulation.agent(1)
    client._say_graph(graph_id)
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    leave_and_check(simulation, client)


def test_a_lost_value_that_no_node_needs_does_not_make_its_graph_lost(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit_graph([(), (0,)], [1])
    agent = simulation.agent(1, in_turn(located, succeed))
    simulation.advance(1.0)
    assert len(agent.dropped) == 1
    agent.leave()
    simulation.advance(1.0)
    assert (client.lost, len(client.results)) == ([], 1)
    leave_and_check(simulation, client)


@pytest.mark.parametrize("is_said_again", [False, True])
def test_a_task_that_needs_a_node_of_a_lost_graph_waits_for_its_resubmission(
    simulation: Simulation, *, is_said_again: bool
) -> None:
    client = simulation.client()
    graph_id = client.submit_graph([(), (0,), ()], [1, 2])
    first = simulation.agent(1, in_turn(located, slow))
    simulation.advance(1.0)
    second = simulation.agent(1, in_turn(slow, located, succeed, succeed, succeed))
    simulation.advance(1.0)
    assert (len(first.started), len(second.started)) == (2, 1)
    second.hang()
    first.leave()
    simulation.advance(1.0)
    assert client.lost == []  # one of its nodes has not stopped yet
    if is_said_again:  # since its client has a new session meanwhile
        client.goes_on = False
        client.connect()
        simulation.advance(1.0)
    needed = client.graphs[graph_id][1].task_id
    task_id = client.submit_with_results(needed)
    simulation.advance(1.0)
    assert client.statuses([needed, task_id]) == [None, None]
    second.wake()
    simulation.advance(40.0)
    assert client.lost == [graph_id]
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    leave_and_check(simulation, client)
