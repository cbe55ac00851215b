"""Tasks that need the results of other tasks, against the whole scheduler; the simulation is audited at every step."""

from __future__ import annotations

import pytest

from scaler.actors.graphs.awaited import AwaitedTasks
from scaler.actors.graphs.graph_values import WORTH_A_PLACE_BYTES
from scaler.ids import GraphId, ObjectId
from scaler.pickling.serialization import OBJECT, VALUE, argument_block
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, GraphInput, InputKnowledge
from scaler.wire.messages.common import ObjectRequest, TaskStatus
from scaler.wire.messages.vocabulary import WORKER
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import Outcome, SimulatedClient, Simulation


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


def large(_run: RunTask) -> Outcome:
    return Outcome(payload=b"", frames=(b"large" * WORTH_A_PLACE_BYTES,))


def leave_and_check(simulation: Simulation, client: SimulatedClient) -> None:
    client.leave()
    simulation.advance(1.0)
    simulation.check_empty()


def test_a_task_runs_when_the_results_that_it_needs_have_arrived(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    first, second = client.submit(2)
    third = client.submit_with_results(first, second)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    assert agent.started[-1].task_id == third
    assert agent.started[-1].payload == argument_block(VALUE, b"done") * 2
    assert client.said(ObjectRequest) == []  # the values did not pass through the client
    leave_and_check(simulation, client)


def test_tasks_that_each_need_the_task_before_run_in_order(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    row = client.submit(1)
    for _ in range(5):
        row.append(client.submit_with_results(row[-1]))
    simulation.advance(10.0)
    assert [run.task_id for run in agent.started] == row
    assert client.said(ObjectRequest) == []
    leave_and_check(simulation, client)


def test_a_large_result_stays_at_its_agent_and_is_read_there(simulation: Simulation) -> None:
    client = simulation.client()
    agents = [simulation.agent(1, large) for _ in range(2)]
    (first,) = client.submit(1)
    second = client.submit_with_results(first)
    simulation.advance(5.0)
    (agent,) = (each for each in agents if each.started)
    assert [(run.task_id, run.object_ids) for run in agent.started] == [(first, b""), (second, first)]
    assert agent.started[-1].payload == argument_block(OBJECT, first)
    assert ObjectId(first) in agent.kept
    assert ObjectId(first) in simulation.tree.objects.objects  # the client has it as well
    leave_and_check(simulation, client)


def test_a_result_that_only_the_client_has_is_requested_from_it(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    (first,) = client.submit(1)
    simulation.advance(5.0)
    result = client.results.pop(first)  # as if it were in transit when the next task is submitted
    second = client.submit_with_results(first)
    client.results[first] = result
    simulation.advance(5.0)
    assert [request.object_id for request in client.said(ObjectRequest)] == [first]
    assert agent.started[-1].task_id == second
    assert agent.started[-1].payload == argument_block(VALUE, b"done")
    leave_and_check(simulation, client)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_result_that_the_client_has_read_travels_with_the_task(simulation: Simulation, is_large: bool) -> None:
    client, agent = simulation.client(), simulation.agent(1, *([large] if is_large else []))
    (first,) = client.submit(1)
    simulation.advance(5.0)
    client.submit_with_results(first)
    simulation.advance(5.0)
    assert client.said(ObjectRequest) == []
    kind, data = (OBJECT, first) if is_large else (VALUE, b"done")
    assert agent.started[-1].payload == argument_block(kind, data)
    leave_and_check(simulation, client)


def test_the_result_of_an_ended_node_is_taken_from_its_graph_that_still_runs(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, lambda run: Outcome(seconds=len(agent.started) * 9.0))
    graph_id = client.submit_graph([(), ()], [0, 1])
    simulation.advance(10.0)
    first = client.graphs[graph_id][0].task_id
    result = client.results.pop(first)
    client.open[first] = graph_id  # as if the result were in transit
    second = client.submit_with_results(first)
    client.results[first] = result
    del client.open[first]
    simulation.advance(60.0)
    assert client.said(ObjectRequest) == []
    assert agent.started[-1].task_id == second
    leave_and_check(simulation, client)


def test_a_failed_task_fails_the_tasks_that_depend_on_it_directly_or_indirectly(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, lambda _: Outcome(status=TaskStatus.FAILED, payload=b"failure"))
    (first,) = client.submit(1)
    second = client.submit_with_results(first)
    third = client.submit_with_results(second)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.FAILED] * 3
    assert {client.results[each].payload for each in (first, second, third)} == {b"failure"}
    leave_and_check(simulation, client)


def test_a_failed_result_that_the_client_has_read_fails_a_task_that_needs_it(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, lambda _: Outcome(status=TaskStatus.FAILED, payload=b"failure"))
    (first,) = client.submit(1)
    simulation.advance(5.0)
    second = client.submit_with_results(first)
    simulation.advance(5.0)
    assert client.results[second].status == TaskStatus.FAILED
    leave_and_check(simulation, client)


def test_a_cancelled_task_cancels_the_tasks_that_need_it(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, slow)
    (first,) = client.submit(1)
    client.submit_with_results(first)
    simulation.advance(1.0)
    client.cancel(first)
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.CANCELED] * 2
    leave_and_check(simulation, client)


def test_cancelling_a_waiting_task_leaves_the_task_that_it_needs_running(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, slow)
    (first,) = client.submit(1)
    second = client.submit_with_results(first)
    simulation.advance(1.0)
    client.cancel(second)
    simulation.advance(60.0)
    assert client.statuses([first, second]) == [TaskStatus.SUCCESS, TaskStatus.CANCELED]
    leave_and_check(simulation, client)


def test_the_result_of_a_node_that_its_graph_did_not_report_is_requested_from_the_client(
    simulation: Simulation,
) -> None:
    awaited = AwaitedTasks()
    assert not awaited.take_of(GraphId(b"g" * 16))
    client = simulation.client()
    simulation.agent(1)
    (first,) = client.submit(1)
    graph_id = client.submit_graph([(), (0,)], [1])
    node = client.graphs[graph_id][0]  # it is not wanted, so its end is not reported
    second = client.submit_with_results(first)
    other = next(each for each, inputs in client.inputs.items() if inputs == [first])
    client.say(GraphInput(other, 0, node.task_id, graph_id, 0))
    simulation.advance(10.0)
    assert client.results[second].status == TaskStatus.SUCCESS
    leave_and_check(simulation, client)


def test_a_task_that_needs_a_result_is_explained_by_the_task_that_it_waits_for(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, slow)
    (first,) = client.submit(1)
    second = client.submit_with_results(first)
    third = client.submit_with_results(second)
    simulation.advance(1.0)
    graph_id = client.open[third]
    assert isinstance(graph_id, bytes)
    client.say(ExplainRequest(third, graph_id, 1))
    simulation.run()
    (answer,) = client.said(ExplainResponse)
    assert (answer.task_id, answer.waits_for) == (third, WORKER)
    assert answer.sentence.startswith("it has waited for 1 s for the result of another node, which runs")
    client.cancel(first)
    simulation.advance(1.0)
    leave_and_check(simulation, client)


def test_tasks_with_results_as_arguments_are_resubmitted_to_another_scheduler(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, slow)
    (first,) = client.submit(1)
    second = client.submit_with_results(first)
    third = client.submit_with_results(second)
    simulation.advance(1.0)
    simulation.restart()
    for peer in simulation.peers:
        peer.connect()
    simulation.advance(200.0)
    assert client.statuses([first, second, third]) == [TaskStatus.SUCCESS] * 3
    leave_and_check(simulation, client)


def test_an_input_of_an_unknown_graph_and_a_surplus_input_are_ignored(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1)
    (first,) = client.submit(1)
    graph_id = GraphId(b"none" * 4)
    client.say(GraphInput(graph_id, 0, first, GraphId(bytes(16))))
    known = client.submit_graph([()], [0])
    client.say(GraphInput(known, 5, first, GraphId(bytes(16)), 0, InputKnowledge.HERE, b"value"))
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    leave_and_check(simulation, client)
