"""Tasks that need results of other tasks by id, against the whole scheduler; each step of the simulation is audited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.actors.dependencies.input_values import WORTH_A_PLACE_BYTES
from scaler.ids import ClientId, GraphId, TaskId
from scaler.keys.allowed import OwnerTerms
from scaler.pickling.serialization import OBJECT, VALUE, argument_block
from scaler.wire.messages.client import InputResult, Task, TaskCancel, TaskResult
from scaler.wire.messages.common import ObjectRequest, TaskStatus
from scaler.wire.messages.rows import pack
from scaler.wire.messages.worker import RunTask
from tests.support.configs import scheduler_config
from tests.support.simulation import Execute, Outcome, SimulatedClient, Simulation, succeed
from tests.unit.actors.dependencies.conftest import (
    await_results,
    by_task,
    large,
    leave_and_check,
    requested,
    slow,
    task,
    task_id,
)


def very_large(_run: RunTask) -> Outcome:
    return Outcome(payload=b"", frames=(b"large" * WORTH_A_PLACE_BYTES,))


def failed(_run: RunTask) -> Outcome:
    return Outcome(TaskStatus.FAILED, b"failure")


def test_a_task_runs_when_the_results_that_it_needs_have_arrived(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    first, second = client.submit(2)
    third = client.submit_with_results(first, second)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    assert agent.started[-1].task_id == third
    assert agent.started[-1].payload == argument_block(VALUE, b"done") * 2
    assert client.said(ObjectRequest) == []  # the values did not pass through the client


@pytest.mark.parametrize("execute", [succeed, very_large, failed])
def test_a_result_that_the_client_has_read_travels_with_the_task(simulation: Simulation, execute: Execute) -> None:
    client, agent = simulation.client(), simulation.agent(1, execute)
    (first,) = client.submit(1)
    simulation.advance(5.0)
    client.submit_with_results(first)
    simulation.advance(5.0)
    assert client.said(ObjectRequest) == []
    assert client.statuses() == [TaskStatus.FAILED if execute is failed else TaskStatus.SUCCESS] * 2
    if execute is not failed:
        kind, data = (OBJECT, first) if execute is very_large else (VALUE, b"done")
        assert agent.started[-1].payload == argument_block(kind, data)


@pytest.mark.parametrize("numbers_tasks", [False, True])
def test_the_result_of_an_ended_task_of_a_graph_that_still_runs_is_taken_there_if_its_id_tells(
    simulation: Simulation, *, numbers_tasks: bool
) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.numbers_tasks = numbers_tasks
    first, second = (each.task_id for each in client.graphs[client.submit_graph([(), ()], [0, 1])])
    agent.execute = by_task({second: slow})
    simulation.advance(10.0)
    result = client.results.pop(first)  # as if it were in transit
    third = client.submit_with_results(first)
    client.results[first] = result
    simulation.advance(60.0)
    assert requested(client) == ([] if numbers_tasks else [first])
    assert agent.started[-1].task_id == third
    assert agent.started[-1].payload == argument_block(VALUE, b"done")


@pytest.mark.parametrize("execute", [succeed, large])
@pytest.mark.parametrize(
    ("waits", "numbers_tasks"),
    [
        ("while it waits", True),  # else the scheduler does not find it
        *[("while it runs", each) for each in (False, True)],
        *[("since it was dropped", each) for each in (False, True)],
        *[("since its graph ended", each) for each in (False, True)],
    ],
)
def test_a_task_can_need_an_unwanted_result_of_a_graph(
    simulation: Simulation, *, numbers_tasks: bool, execute: Execute, waits: str
) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.numbers_tasks = numbers_tasks
    shape = [(), (), (0,), (2,)]
    nodes = [each.task_id for each in client.graphs[client.submit_graph(shape, [1, 3])]]
    agent.execute = by_task({nodes[0]: execute, nodes[1]: slow, nodes[2]: execute})
    seconds = {"while it waits": 0.05, "while it runs": 0.15, "since it was dropped": 1.0}
    simulation.advance(seconds.get(waits, 100.0))
    last = client.submit_with_results(nodes[2])
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    assert {run.task_id for run in agent.started} == {*nodes, last}
    kind = (VALUE, b"done") if execute is succeed else (OBJECT, nodes[2])
    assert agent.started[-1].payload == argument_block(*kind)
    assert client.surplus == []


@pytest.mark.parametrize("state", ["waits", "runs"])
def test_a_cancelled_graph_cancels_the_tasks_in_no_graph_that_need_its_tasks(
    simulation: Simulation, state: str
) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.numbers_tasks = True
    nodes = [each.task_id for each in client.graphs[client.submit_graph([(), (0,), (1,)], [0, 2])]]
    needed = nodes[0 if state == "runs" else 1]
    second = client.submit_with_results(needed)
    third = client.submit_with_results(second)
    simulation.advance(1.0)
    client.cancel(nodes[2])
    simulation.advance(1.0)
    assert client.statuses([nodes[0], nodes[2], second, third]) == [TaskStatus.CANCELED] * 4
    assert agent.queued == []


@pytest.mark.parametrize(("bound", "is_one_message"), [("quota", False), ("quota", True), ("client", False)])
def test_a_needed_task_starts_although_the_tasks_that_wait_for_it_exhaust_the_bounds(
    bound: str, *, is_one_message: bool
) -> None:
    simulation = Simulation(scheduler_config(client_tasks=1 if bound == "client" else 100))
    if bound == "quota":
        simulation.tree.directory.owners.of("alice", OwnerTerms(tasks=2))
    client, agent = simulation.client(user="alice"), simulation.agent(1)
    needed = task(client, 1)
    waiting = [task(client, number, 1, inputs=needed.task_id) for number in (2, 3)]
    ids = await_results(client, needed, *waiting)
    if is_one_message:
        client.say(*waiting, needed)
    else:
        client.say(*waiting)
        simulation.advance(1.0)
        client.say(needed)
    simulation.advance(5.0)
    assert agent.started[0].task_id == needed.task_id
    assert client.statuses(ids) == [TaskStatus.SUCCESS] * 3
    leave_and_check(simulation, client)


def test_a_held_task_starts_once_tasks_that_exhaust_the_quota_need_it(simulation: Simulation) -> None:
    """Tasks of a client that had another scheduler are held until its agents are back. A graph is not held."""
    simulation.tree.directory.owners.of("alice", OwnerTerms(tasks=2))
    client = SimulatedClient(simulation, ClientId(simulation.new_id(b"client")))
    client.user, client.was_welcome = "alice", True
    simulation.peers.append(client)
    client.connect()
    simulation.run()
    (held,) = client.submit(1)
    also_held = client.submit_with_results(held)
    of_graph = {"graph_id": GraphId(b"g" * 16), "graph_tasks": 2}
    graph = [task(client, number, 1, inputs=also_held, **of_graph) for number in (1, 2)]
    ids = await_results(client, *graph)
    client.say(*graph)
    simulation.advance(5.0)
    simulation.agent(1)
    simulation.advance(5.0)
    assert client.statuses([held, also_held, *ids]) == [TaskStatus.SUCCESS] * 4


def test_a_needed_task_that_the_scheduler_refuses_fails_the_tasks_that_need_it(simulation: Simulation) -> None:
    other, client = simulation.client(), simulation.client()
    taken = other.create(b"an object of another client")
    first, second = replace(task(client, 1), task_id=TaskId(taken)), task(client, 2, 1, inputs=taken)
    ids = await_results(client, first, second)
    client.say(second)
    simulation.advance(1.0)
    client.say(first)
    simulation.advance(1.0)
    assert client.statuses(ids) == [TaskStatus.MISSING_OBJECTS] * 2


def test_a_stored_result_that_its_client_submits_again_starts_the_tasks_that_need_it(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, large)
    (first,) = client.submit(1)
    simulation.advance(1.0)
    known = client.results.pop(first)
    client.open[first] = client.calls[first]  # as if its result were in transit
    second = client.submit_with_results(first)
    client.say(client.calls[first])
    simulation.advance(5.0)
    assert client.results == {first: replace(known, duration_us=0), second: client.results[second]}
    assert [run.task_id for run in agent.started] == [first, second]


def test_a_task_that_needs_a_row_of_a_range_ends_with_the_range(simulation: Simulation) -> None:
    """The scheduler does not look into the result of a range: it requests the row from the client."""
    client = simulation.client()
    first, row = (TaskId(bytes(15) + bytes([number])) for number in range(2))
    answer = InputResult(row, TaskStatus.CANCELED, b"")
    client._supply = lambda _row: client.said(TaskResult) and client.say(answer)  # before, the row is open
    client.say(Task(first, client.function_id, pack([b"one", b"two"]), b"", rows=2))
    second = client.submit_with_results(row)
    simulation.advance(1.0)
    assert requested(client) == [row]
    client.say(TaskCancel(first, rows=2))
    simulation.advance(1.0)
    assert requested(client) == [row, row]
    assert client.statuses([second]) == [TaskStatus.CANCELED]


def test_a_range_whose_first_row_is_needed_keeps_to_the_bounds_and_is_checked(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    ids = await_results(client, task(client, 1), task(client, 2, 1, inputs=task_id(1)))
    client.say(task(client, 2, 1, inputs=task_id(1)), replace(task(client, 1), rows=3))
    simulation.advance(1.0)
    assert client.statuses(ids) == [TaskStatus.INTERNAL_ERROR] * 2
    assert agent.started == []


def test_an_object_of_another_owner_is_no_result_of_a_task(simulation: Simulation) -> None:
    other, client = simulation.client(user="bob"), simulation.client(user="alice")
    client_peer = simulation.tree.directory.peers["client", client.client_id]
    client_peer.is_admin = False
    foreign = other.create(b"secret")
    waiting = task(client, 1, 1, inputs=foreign)
    (waiting_id,) = await_results(client, waiting)
    client.say(waiting, InputResult(TaskId(foreign), TaskStatus.SUCCESS, b"", 6))
    simulation.advance(1.0)
    assert client.statuses([waiting_id]) == [TaskStatus.MISSING_OBJECTS]


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.SUCCESS])
def test_answers_that_no_task_awaits_are_ignored(simulation: Simulation, status: TaskStatus) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    (first,) = client.submit(1)
    second = client.submit_with_results(first)
    client.say(InputResult(task_id(1), status, b"other"))
    simulation.advance(0.15)
    client.say(InputResult(first, status, b"other"), InputResult(second, status, b"other"))
    simulation.advance(1.0)
    assert client.statuses([first, second]) == [TaskStatus.SUCCESS] * 2
    assert agent.started[-1].payload == argument_block(VALUE, b"done")
