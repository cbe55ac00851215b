"""Graphs against the whole scheduler; the audits of the simulation run at every step."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from scaler.actors.dependencies.input_values import WORTH_A_PLACE_BYTES
from scaler.actors.dependencies.waiting_task import SHARED_BYTES, TaskGraph, WaitingTask
from scaler.actors.slices import SLICE_STEPS
from scaler.ids import NO_ID, GraphId, ObjectId
from scaler.pickling.serialization import BLOCK_BYTES, OBJECT, VALUE, WORTH_AN_OBJECT_BYTES, argument_block
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import Task, TaskCancel
from scaler.wire.messages.common import PROFILE, InstructionKind, ObjectInstruction, TaskStatus
from scaler.wire.messages.vocabulary import split_failed_input
from tests.support.configs import scheduler_config
from tests.support.simulation import Execute, Outcome, SimulatedAgent, SimulatedClient, Simulation, succeed
from tests.unit.actors.dependencies.conftest import (
    DIAMOND,
    by_task,
    large,
    leave_and_check,
    located,
    packed,
    slow,
    task,
    task_id,
)

GRAPH_ID = GraphId(b"g" * 16)
OBJECT_ID = ObjectId(b"o" * 16)


def in_graph(client: SimulatedClient, number: int, of: int, **fields: Any) -> Task:
    """Return a wanted task of a graph that has `of` tasks."""
    return task(client, number, graph_id=GRAPH_ID, graph_tasks=of, **fields)


def instances() -> Counter[type]:
    """Return how many tasks and graphs of `WaitingTasks` there are in this process."""
    return Counter(type(each) for each in gc.get_objects() if type(each) in (WaitingTask, TaskGraph))


@pytest.mark.parametrize("numbers_tasks", [False, True])
def test_tasks_run_when_their_arguments_exist_and_only_wanted_results_travel(
    simulation: Simulation, *, numbers_tasks: bool
) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.numbers_tasks = numbers_tasks
    graph_id = client.submit_graph(DIAMOND, [3])
    simulation.advance(5.0)
    nodes = [each.task_id for each in client.graphs[graph_id]]
    assert [run.task_id for run in agent.started] == nodes
    assert agent.started[-1].payload == argument_block(VALUE, b"done") * 2
    assert list(client.results) == [nodes[3]]
    assert client.surplus == []
    assert simulation.graphs() == []


@pytest.mark.parametrize("ends", ["complete", "cancelled", "client left"])
def test_objects_of_a_graph_stay_until_all_tasks_that_may_name_them_have_arrived(
    simulation: Simulation, ends: str
) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    store = simulation.tree.objects
    first, second = (replace(in_graph(client, number, of=2), object_ids=OBJECT_ID) for number in (1, 2))
    client.say(ObjectInstruction(InstructionKind.CREATE_FOR_TASK, OBJECT_ID, "", [b"content"]), first)
    simulation.advance(1.0)
    assert [result.task_id for result in client.surplus] == [first.task_id]
    assert OBJECT_ID in store.objects
    if ends == "complete":
        client.say(second)
    elif ends == "cancelled":
        client.say(TaskCancel(first.task_id, graph_id=GRAPH_ID))
    else:
        client.leave()
    simulation.advance(1.0)
    assert len(agent.started) == (2 if ends == "complete" else 1)
    assert OBJECT_ID not in store.objects
    assert simulation.graphs() == []


def test_a_task_whose_result_is_no_longer_needed_does_not_run_and_its_objects_are_deleted(
    simulation: Simulation,
) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    store = simulation.tree.objects
    first, second, third = (replace(in_graph(client, each, of=3), object_ids=OBJECT_ID) for each in (1, 2, 3))
    client.say(ObjectInstruction(InstructionKind.CREATE_FOR_TASK, OBJECT_ID, "", [b"content"]))
    client.say(replace(first, function_id=ObjectId(NO_ID), unwanted=1))
    simulation.advance(1.0)
    assert OBJECT_ID in store.objects
    client.say(second, replace(third, dependencies=packed(0)))  # the result is requested, and the client has none
    simulation.advance(1.0)
    assert [run.task_id for run in agent.started] == [second.task_id]
    statuses = {result.task_id: result.status for result in client.surplus}
    assert statuses == {second.task_id: TaskStatus.SUCCESS, third.task_id: TaskStatus.NOT_FOUND}
    assert OBJECT_ID not in store.objects
    assert simulation.graphs() == []


@pytest.mark.parametrize("ends", ["complete", "failed", "cancelled"])
def test_the_tasks_of_an_ended_graph_are_freed_without_the_garbage_collector(
    simulation: Simulation, request: pytest.FixtureRequest, ends: str
) -> None:
    client, outcome = simulation.client(), Outcome(TaskStatus.FAILED if ends == "failed" else TaskStatus.SUCCESS)
    simulation.agent(2, lambda _run: outcome)
    gc.collect()
    gc.disable()
    request.addfinalizer(gc.enable)
    before = instances()
    client.submit_graph(DIAMOND, [0, 3])
    simulation.advance(0.05)
    assert instances() - before == Counter({WaitingTask: 4, TaskGraph: 1})
    if ends == "cancelled":
        client.cancel(client.submitted[-1])
    simulation.advance(5.0)
    assert instances() == before


def test_a_large_result_is_an_object_until_its_last_consumer_has_ended(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, large)
    graph_id = client.submit_graph(DIAMOND, [3])
    simulation.advance(0.15)
    first = client.graphs[graph_id][0].task_id
    assert ObjectId(first) in simulation.tree.objects.objects
    assert {run.object_ids for run in agent.started[1:3]} == {first}
    assert {run.payload for run in agent.started[1:3]} == {argument_block(OBJECT, first)}
    assert first in agent.kept
    simulation.advance(5.0)
    assert list(simulation.tree.objects.objects) == [client.function_id, client.submitted[0]]
    assert first in agent.forgotten
    assert client.results[client.submitted[0]].size == len(b"largeresult")
    client.fetch(ObjectId(client.submitted[0]))
    simulation.run()
    assert client.fetched[ObjectId(client.submitted[0])] == b"largeresult"


@pytest.mark.parametrize(("size", "is_near"), [(WORTH_A_PLACE_BYTES, True), (WORTH_A_PLACE_BYTES - 1, False)])
def test_tasks_that_need_a_very_large_result_run_where_it_was_made(
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


FAN_OUT = 3 * SLICE_STEPS
WIDE = [(), *[(0,)] * FAN_OUT]


def n_waiting(simulation: Simulation) -> int:
    (session,) = simulation.all_client_sessions()
    return session.statistics()["waiting"]


def end_first(simulation: Simulation, agent: SimulatedAgent) -> None:
    """Let the scheduler receive the result of the first task, and do nothing with it yet."""
    simulation.run()
    simulation.clock.advance(0.1)
    agent.on_time(simulation.clock())
    simulation.edge.receive()


def test_very_many_consumers_are_started_in_slices() -> None:
    simulation = Simulation(audited=False)
    client, agent = simulation.client(), simulation.agent(1)
    client.submit_graph(WIDE, [FAN_OUT])
    end_first(simulation, agent)
    assert n_waiting(simulation) == FAN_OUT
    most = 0
    while before := n_waiting(simulation):
        simulation.dispatcher.run(1)
        most = max(most, before - n_waiting(simulation))
    assert SLICE_STEPS - 1 <= most <= SLICE_STEPS
    simulation.advance(200.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    leave_and_check(simulation, client)


@pytest.mark.parametrize(("later", "leaves"), [(0, False), (SLICE_STEPS + 5, False), (0, True)])
def test_a_wide_graph_can_end_while_its_tasks_start(simulation: Simulation, *, later: int, leaves: bool) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    client.submit_graph([*WIDE, *[(0,)] * later], [1, FAN_OUT])
    end_first(simulation, agent)
    waiting = n_waiting(simulation)
    while n_waiting(simulation) == waiting:
        simulation.dispatcher.run(1)
    if leaves:
        client.leave()
    else:
        client.cancel(client.submitted[0])
    simulation.advance(5.0)
    assert client.statuses() == [None if leaves else TaskStatus.CANCELED] * 2
    assert (agent.queued, simulation.graphs()) == ([], [])


def test_very_many_tasks_fail_with_the_task_that_they_need(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, lambda _run: Outcome(TaskStatus.FAILED, b"why"))
    client.submit_graph(WIDE, range(len(WIDE)))
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.FAILED] * len(WIDE)
    assert simulation.graphs() == []


@pytest.mark.parametrize("size", [WORTH_AN_OBJECT_BYTES - 1, WORTH_AN_OBJECT_BYTES, 8192])
def test_a_small_result_becomes_an_object_if_many_tasks_need_it(simulation: Simulation, size: int) -> None:
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
    if is_object:  # the remaining tasks may carry it again
        assert sum(len(run.payload) for run in agent.started[1:]) <= SHARED_BYTES + count * 64
    assert client.statuses() == [TaskStatus.SUCCESS]
    client.delete(ObjectId(client.submitted[0]))


def test_the_tasks_of_a_graph_keep_their_names_options_and_priorities(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.name, client.options = "nightly", RunOptions(profiling=True, retries=3).encode()
    client.submit_graph(DIAMOND, [0, 3])
    simulation.advance(5.0)
    assert {(run.name, run.options) for run in agent.started} == {("nightly", client.options)}
    assert [client.results[each].profile for each in client.submitted] == [PROFILE.pack(100_000, 0, 0)] * 2
    named = [in_graph(client, each, 3, name=f"task {each}", priority=each, options=b"") for each in (1, 2)]
    named = [replace(each, named_by_key=is_key) for each, is_key in zip(named, (0, 1), strict=True)]
    client.say(*named, in_graph(client, 3, 3))
    simulation.advance(5.0)
    found = {(run.task_id, run.name, run.priority, run.options) for run in agent.started[4:]}
    assert found == {(task_id(1), "task 1", 1, b""), (task_id(2), "", 2, b""), (task_id(3), "", 0, b"")}


def test_a_failed_task_fails_its_dependents_with_its_error_and_other_tasks_run(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit_graph([(), (0,), (1,), (), (3,)], range(5))
    bad = client.submitted[0]
    simulation.agent(2, lambda run: Outcome(TaskStatus.FAILED, b"why") if run.task_id == bad else Outcome())
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.FAILED] * 3 + [TaskStatus.SUCCESS] * 2
    assert {client.results[each].payload for each in client.submitted[:3]} == {b"why"}


def test_dependents_of_a_task_that_failed_without_an_exception_end_with_its_id(simulation: Simulation) -> None:
    client = simulation.client()
    first, second, third = (in_graph(client, number, of=3) for number in (1, 2, 3))
    simulation.agent(1, lambda _run: Outcome(TaskStatus.TIMED_OUT, b"too long"))
    client.say(first)
    simulation.advance(5.0)
    client.say(replace(second, dependencies=packed(0)), replace(third, dependencies=packed(1)))
    simulation.advance(5.0)
    payloads = {result.task_id: result.payload for result in client.surplus}
    assert split_failed_input(payloads[first.task_id]) == (b"", b"too long")
    assert split_failed_input(payloads[second.task_id]) == (first.task_id, b"too long")
    assert split_failed_input(payloads[third.task_id]) == (first.task_id, b"too long")


def test_tasks_whose_inputs_have_ended_run_before_waiting_tasks(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    graph_id = client.submit_graph([(), (), (), (), (), (0, 1)], range(6))
    simulation.run()
    (other,) = client.submit(1)
    simulation.advance(300.0)
    nodes = [each.task_id for each in client.graphs[graph_id]]
    assert [run.task_id for run in agent.started] == [*nodes[:2], nodes[5], *nodes[2:5], other]


def test_a_refused_task_fails_its_whole_graph_and_no_other_task_but_those_that_need_it() -> None:
    simulation = Simulation(scheduler_config(max_number_of_tasks_waiting=1, per_worker_queue_size=1))
    client = simulation.client()
    client.numbers_tasks = True
    agent = simulation.agent(1, slow)
    (plain,) = client.submit(1)
    simulation.advance(1.0)
    client.submit_graph([(), (), (1,), ()], range(4))
    alone = [client.submit_with_results(each) for each in client.submitted[1:5]]
    simulation.advance(1.0)
    assert client.statuses()[1:] == [TaskStatus.NO_WORKER] * 8
    assert len({client.results[each].payload for each in client.submitted[1:5]}) == 1
    assert {split_failed_input(client.results[each].payload)[0] for each in alone} == set(client.submitted[1:5])
    simulation.advance(200.0)
    assert client.statuses([plain]) == [TaskStatus.SUCCESS]
    assert [run.task_id for run in agent.started] == [plain]
    leave_and_check(simulation, client)


def test_a_graph_refused_while_it_runs_stops_its_running_tasks_and_refuses_later_ones() -> None:
    simulation = Simulation(scheduler_config(max_number_of_tasks_waiting=0, per_worker_queue_size=1))
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(1)
    simulation.advance(40.0)
    first, second, late = (in_graph(client, number, of=3) for number in (1, 2, 3))
    client.open = {each.task_id: each for each in (first, second, late)}
    client.say(first, second)
    simulation.advance(1.0)
    assert client.statuses(client.open) == [None]
    assert client.statuses([first.task_id, second.task_id]) == [TaskStatus.NO_WORKER] * 2
    assert agent.queued == []
    client.say(late)
    simulation.advance(1.0)
    assert client.statuses([late.task_id]) == [TaskStatus.NO_WORKER]
    assert simulation.graphs() == []
    leave_and_check(simulation, client)


@pytest.mark.parametrize("numbers_tasks", [False, True])
def test_a_cancelled_graph_ends_all_its_tasks_and_frees_the_workers(
    simulation: Simulation, *, numbers_tasks: bool
) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.numbers_tasks = numbers_tasks
    client.submit_graph([*DIAMOND, ()], range(5))
    simulation.advance(1.0)
    client.cancel(client.submitted[3])
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.CANCELED] * 5
    assert agent.queued == []
    assert simulation.graphs() == []


def test_tasks_that_arrive_while_a_task_of_their_cancelled_graph_stops_are_cancelled(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.say(in_graph(client, 1, of=3))
    simulation.advance(1.0)
    agent.hang()
    client.say(TaskCancel(task_id(1), graph_id=GRAPH_ID), in_graph(client, 2, of=3), in_graph(client, 3, of=3))
    simulation.run()
    statuses = {result.task_id: result.status for result in client.surplus}
    assert statuses == {task_id(number): TaskStatus.CANCELED for number in (2, 3)}
    agent.wake()
    simulation.run()
    assert client.surplus[-1].task_id == task_id(1)
    assert simulation.graphs() == []


def test_tasks_that_arrive_after_the_end_of_their_cancelled_graph_are_cancelled(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.dependencies.waiting_tasks.REFUSED_MOST", 2)
    client, agent = simulation.client(), simulation.agent(1)
    graphs = [GraphId(bytes([number]) * 16) for number in range(3)]
    for number, graph_id in enumerate(graphs):
        client.say(
            replace(in_graph(client, number, of=3), graph_id=graph_id), TaskCancel(task_id(number), graph_id=graph_id)
        )
        simulation.advance(1.0)
    assert [result.status for result in client.surplus] == [TaskStatus.CANCELED] * 3
    late = [replace(in_graph(client, 10 + n, of=3), graph_id=each) for n, each in enumerate(graphs)]
    client.open = {each.task_id: each for each in late}
    client.say(*late[1:], replace(late[1], task_id=task_id(20), unwanted=1))
    simulation.advance(1.0)
    assert client.statuses(each.task_id for each in late) == [None, TaskStatus.CANCELED, TaskStatus.CANCELED]
    assert len(client.surplus) == 3
    assert agent.started == []
    client.say(late[0])  # the scheduler has forgotten its graph
    simulation.advance(1.0)
    assert [run.task_id for run in agent.started] == [late[0].task_id]


@pytest.mark.parametrize("execute", [succeed, large, located])
def test_a_graph_whose_results_were_all_lost_with_the_connection_does_not_run_again(
    simulation: Simulation, execute: Execute
) -> None:
    client, agent = simulation.client(), simulation.agent(1, execute)
    graph_id = client.submit_graph([(), (0,), (0,)], [1, 2])
    simulation.advance(0.05)
    client.cut()
    simulation.advance(1.0)
    assert simulation.graphs() == []
    assert client.statuses() == [None] * 2
    client.connect()
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert [run.task_id for run in agent.started] == [each.task_id for each in client.graphs[graph_id]]


@pytest.mark.parametrize(
    "fields",
    [
        {"dependencies": packed(1)},  # itself
        {"dependencies": packed(2)},  # a later task
        {"dependencies": packed(0), "payload": argument_block(2, packed(7))},  # not among its dependencies
        {"dependencies": packed(0), "payload": b"\2\0\0\4\0\0\0"},  # cut off
        {"inputs": task_id(1)},  # itself, too
        {"rows": 3},
    ],
)
def test_a_malformed_task_of_a_graph_fails_alone(simulation: Simulation, fields: dict[str, Any]) -> None:
    client = simulation.client()
    simulation.agent(1)
    good, bad, last = (in_graph(client, number, of=3) for number in range(3))
    client.open = {each.task_id: each for each in (good, bad, last)}
    client.say(good, replace(bad, **fields), last)
    simulation.advance(40.0)
    statuses = [TaskStatus.SUCCESS, TaskStatus.INTERNAL_ERROR, TaskStatus.SUCCESS]
    assert client.statuses(each.task_id for each in (good, bad, last)) == statuses


def test_tasks_beyond_the_announced_number_are_ignored(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    client.say(*(in_graph(client, number, of=1) for number in (1, 2)))
    simulation.advance(1.0)
    assert [run.task_id for run in agent.started] == [task_id(1)]


def test_a_cancel_without_a_graph_is_ignored_for_a_waiting_task_of_a_graph(simulation: Simulation) -> None:
    """Clients cancel graphs as a whole."""
    client = simulation.client()
    simulation.agent(1)
    client.submit_graph([(), (0,)], [0, 1])
    client.say(TaskCancel(client.submitted[1]), TaskCancel(client.submitted[1], graph_id=GRAPH_ID))
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2


def test_statistics_count_waiting_tasks_and_graphs(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit_graph(DIAMOND, [3])
    client.submit(1)
    simulation.run()
    (session,) = simulation.all_client_sessions()
    assert session.statistics() == {"tasks": 1, "waiting": 3, "graphs": 1}


@pytest.mark.parametrize("ends", ["complete", "cancelled", "client left"])
def test_frames_of_a_waiting_task_travel_with_it_and_count_as_memory_until_then(
    simulation: Simulation, ends: str
) -> None:
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=3.0))
    table = simulation.tree.objects
    before = table.size_bytes
    first, second = (in_graph(client, n, of=2, frames=(bytes(100 * n), b"2")) for n in (1, 2))
    client.say(first, replace(second, dependencies=packed(0)))
    simulation.advance(1.0)
    assert table.size_bytes == before + 302
    if ends == "client left":
        client.leave()
    elif ends == "cancelled":
        client.say(TaskCancel(second.task_id, graph_id=GRAPH_ID))
    simulation.advance(20.0)
    assert [list(map(bytes, run.frames)) for run in agent.started] == [
        list(each.frames) for each in ([first, second] if ends == "complete" else [first])
    ]
    assert table.size_bytes == (0 if ends == "client left" else before)


@pytest.mark.parametrize("ends", ["not needed", "cancelled"])
def test_a_large_result_that_no_task_needs_is_deleted_at_its_agent(simulation: Simulation, ends: str) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    graph_id = client.submit_graph([(), ()], [1])
    first, second = (each.task_id for each in client.graphs[graph_id])
    agent.execute = by_task({first: located, second: slow})
    if ends == "cancelled":
        simulation.run()
        client.cancel(second)
    simulation.advance(1.0)
    assert [object_id for object_id, _location in agent.dropped] == ([] if ends == "cancelled" else [first])
