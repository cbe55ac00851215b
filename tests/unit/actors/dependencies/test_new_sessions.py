"""Tasks that need results of other tasks, after their client has got another scheduler, or another session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler.actors.tasks.adoption import HOLD_SECONDS
from scaler.ids import NO_ID, PREFIX_BYTES, GraphId, ObjectId
from scaler.keys.allowed import OwnerTerms
from scaler.pickling.serialization import VALUE, argument_block
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import ClientHeartbeat, InputResult, Task, TaskCancel, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import SimulatedClient, Simulation, succeed
from tests.unit.actors.dependencies.conftest import (
    by_task,
    large,
    leave_and_check,
    located,
    packed,
    requested,
    slow,
    task,
    task_id,
)

SUCCESS, FAILED, NOT_FOUND = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.NOT_FOUND
FIRST, SECOND, THIRD, FOURTH = 1, 2, 3, 4
NEEDED = task_id(FIRST)
NO_AGENT = RunOptions(capabilities=(("unknown", 1),)).encode()
"""The options of a task that no agent can run."""
GRAPH = GraphId(NEEDED[:PREFIX_BYTES] + b"graph---")


def silent_client(simulation: Simulation, user: str = "") -> SimulatedClient:
    """Return a client that resubmits nothing and answers no requests by itself."""
    client = simulation.client(user=user)
    client._supply = lambda _id: None  # type: ignore[assignment,method-assign]
    client.heartbeat = lambda sent_ns: ClientHeartbeat(sent_ns, has_unsent=1)  # type: ignore[method-assign]
    return client


def returned_client(simulation: Simulation) -> SimulatedClient:
    """Return such a client that had another scheduler."""
    client = silent_client(simulation)
    simulation.restart()
    client.connect()
    simulation.run()
    return client


def claim_of(client: SimulatedClient, number: int) -> Task:
    return replace(task(client, number), options=RunOptions(was_submitted=True).encode())


def in_graph(client: SimulatedClient, number: int, size: int, needs: int = 0, **fields: Any) -> Task:
    return task(client, number, needs, graph_id=GRAPH, graph_tasks=size, **fields)


def statuses(client: SimulatedClient, number: int) -> list[int]:
    """Return the statuses of all results of a task that the client has received."""
    return [result.status for result in client.said(TaskResult) if result.task_id == task_id(number)]


@pytest.mark.parametrize("connects", [False, True])
def test_a_refused_claim_does_not_fail_the_tasks_that_need_the_result(
    simulation: Simulation, *, connects: bool
) -> None:
    """In a new session it is answered once: the client would take another answer for the end of the task that runs."""
    client, agent = returned_client(simulation), simulation.agent(1)
    items = claim_of(client, FIRST), task(client, SECOND, 1, inputs=NEEDED)
    client.say(*items)
    if connects:
        simulation.run()
        client.connect()
    simulation.advance(HOLD_SECONDS)
    if connects:
        client.say(*items)
        simulation.advance(1.0)
    assert statuses(client, FIRST) == [NOT_FOUND]
    assert (requested(client), agent.started) == ([NEEDED], [])
    client.say(task(client, FIRST))
    simulation.advance(1.0)
    assert statuses(client, FIRST) == [NOT_FOUND, SUCCESS]
    assert statuses(client, SECOND) == [SUCCESS]


def test_a_result_that_is_awaited_is_taken_from_the_graph_that_arrives_later(simulation: Simulation) -> None:
    client, agent = returned_client(simulation), simulation.agent(1)
    client.say(task(client, SECOND, 1, inputs=NEEDED))
    simulation.run()
    client.say(in_graph(client, FIRST, 1, unwanted=1))
    simulation.advance(60.0)
    assert [run.task_id for run in agent.started] == [NEEDED, task_id(SECOND)]
    assert statuses(client, SECOND) == [SUCCESS]


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("status", [SUCCESS, FAILED])
def test_the_result_of_a_task_that_its_client_reports_as_ended_is_requested(
    simulation: Simulation, status: TaskStatus, *, is_first: bool
) -> None:
    client, agent = returned_client(simulation), simulation.agent(2, by_task({task_id(THIRD): slow}))
    ended = replace(in_graph(client, FIRST, 2, unwanted=1), function_id=ObjectId(NO_ID))
    graph, needy = (ended, in_graph(client, THIRD, 2)), (task(client, SECOND, 1, inputs=NEEDED),)
    for items in (graph, needy) if is_first else (needy, graph):
        client.say(*items)
        simulation.run()
    assert set(requested(client)) == {NEEDED}
    assert statuses(client, SECOND) == []
    client.say(InputResult(NEEDED, status, b"value"))
    simulation.advance(1.0)
    client.say(task(client, FOURTH, 1, inputs=NEEDED))  # a failure is still known
    simulation.run()
    failed = [result.task_id for result in client.said(TaskResult) if result.payload == b"value"]
    assert failed == ([task_id(SECOND), task_id(FOURTH)] if status else [])
    simulation.advance(60.0)
    assert statuses(client, SECOND) == [status]
    payloads = {run.task_id: run.payload for run in agent.started}
    assert payloads.get(task_id(SECOND)) == (argument_block(VALUE, b"value") if not status else None)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_task_that_needs_a_resubmitted_graph_gets_its_result_although_the_graph_is_answered(
    simulation: Simulation, *, is_large: bool
) -> None:
    """A large result is stored, and only the client has a small one."""
    client, agent = silent_client(simulation), simulation.agent(1, large if is_large else succeed)
    client.hang()
    client.say(in_graph(client, FIRST, 1))
    simulation.advance(1.0)
    client.hangs = False
    client._unread.clear()
    client.connect()  # the result was lost with the old session
    simulation.run()
    client.say(task(client, SECOND, 1, inputs=NEEDED))
    simulation.run()
    assert requested(client) == [NEEDED] * (not is_large)  # the client is about to send the graph
    client.say(in_graph(client, FIRST, 1))
    simulation.advance(1.0)
    assert statuses(client, FIRST) == [SUCCESS]
    assert requested(client) == [NEEDED] * 2 * (not is_large)
    client.say(InputResult(NEEDED, SUCCESS, b"done"))
    simulation.advance(1.0)
    assert [run.task_id for run in agent.started] == [NEEDED, task_id(SECOND)]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_graph_that_is_sent_again_makes_only_lost_results_again(simulation: Simulation, *, is_lost: bool) -> None:
    """The first result is needed by the second task only. The third one keeps the graph open."""
    client, nodes = silent_client(simulation), [task_id(each) for each in (FIRST, SECOND, THIRD)]
    first = simulation.agent(1, by_task(dict.fromkeys(nodes[:2], located)))
    tasks = [
        in_graph(client, FIRST, 3),
        in_graph(client, SECOND, 3, 1, dependencies=packed(0)),
        in_graph(client, THIRD, 3, 1, dependencies=packed(1), options=NO_AGENT),
    ]
    client.say(*tasks)
    simulation.advance(1.0)
    assert [run.task_id for run in first.started] == nodes[:2]
    if is_lost:
        first.die()
        simulation.advance(60.0)
    agent = simulation.agent(1, large)
    client.connect()
    simulation.run()
    client.heard.clear()
    client.say(*tasks)
    simulation.advance(1.0)
    assert [run.task_id for run in agent.started] == (nodes[:2] if is_lost else [])
    assert [statuses(client, each) for each in (FIRST, SECOND, THIRD)] == [[SUCCESS], [SUCCESS], []]
    client.say(TaskCancel(task_id(THIRD), graph_id=GRAPH))
    simulation.run()


class Held:
    """An agent has a run of a task that needs a result, which the next scheduler does not have."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.client = simulation, silent_client(simulation)
        self.agent = simulation.agent(2, by_task({task_id(SECOND): self.takes_long}))
        self.second = task(self.client, SECOND, 1, inputs=NEEDED)
        self.client.say(task(self.client, FIRST), self.second)
        simulation.advance(2 * HOLD_SECONDS)
        assert self.agent.queued == [task_id(SECOND)]
        simulation.restart()
        for peer in (self.client, self.agent):
            peer.connect()
        simulation.run()
        self.client.say(self.second)
        self.timeout = simulation.limits.client_timeout_seconds
        simulation.advance(2 * max(self.timeout, simulation.limits.worker_timeout_seconds))

    def takes_long(self, _run: RunTask) -> Any:
        return replace(slow(_run), seconds=10_000.0)


def test_a_task_whose_input_is_made_again_for_long_adopts_its_run_afterwards(simulation: Simulation) -> None:
    held = Held(simulation)
    held.client.say(task(held.client, FIRST))
    simulation.advance(10.0)
    assert [run.task_id for run in held.agent.started] == [NEEDED, task_id(SECOND), NEEDED]
    assert held.agent.queued == [task_id(SECOND)]
    simulation.advance(10_000.0)
    assert statuses(held.client, SECOND) == [SUCCESS]


@pytest.mark.parametrize("ends", ["cancelled", "left"])
def test_the_run_of_a_task_that_has_ended_while_it_waited_is_cancelled(simulation: Simulation, ends: str) -> None:
    held = Held(simulation)
    assert held.agent.queued == [task_id(SECOND)]
    if ends == "left":
        held.client.leave()
    else:
        held.client.cancel(task_id(SECOND))
    simulation.advance(2 * max(held.timeout, simulation.limits.worker_timeout_seconds))
    assert held.agent.queued == []
    leave_and_check(simulation, held.client)
    assert simulation.tree.adoptions.waiting == {}


def test_an_unwanted_task_that_was_open_in_the_last_session_can_be_sent_again(simulation: Simulation) -> None:
    """Its client does not resubmit it by itself, so it is not left out when its result is requested once more."""
    client, agent = silent_client(simulation), simulation.agent(1)
    client.say(task(client, SECOND, 1, inputs=NEEDED), task(client, FIRST, unwanted=1))
    simulation.run()
    client.connect()
    simulation.advance(0.5)
    client.say(task(client, SECOND, 1, inputs=NEEDED), task(client, THIRD, 1, inputs=NEEDED))
    simulation.run()
    assert requested(client) == [NEEDED]
    client.say(task(client, FIRST, unwanted=1))
    simulation.advance(1.0)
    assert [run.task_id for run in agent.started].count(NEEDED) == 2
    assert statuses(client, THIRD) == [SUCCESS]


def test_a_graph_of_a_new_session_starts_when_it_has_arrived(simulation: Simulation) -> None:
    """The client might have all results that it wants of the graph."""
    client, agent = silent_client(simulation), simulation.agent(1)
    client.connect()
    simulation.run()
    client.say(in_graph(client, FIRST, 3), in_graph(client, SECOND, 3, 1, dependencies=packed(0)))
    simulation.advance(10.0)
    assert agent.started == []
    client.say(in_graph(client, THIRD, 3))
    simulation.advance(10.0)
    assert len(agent.started) == 3
    assert [statuses(client, each) for each in (FIRST, SECOND, THIRD)] == [[SUCCESS]] * 3


def test_an_open_task_that_the_client_wants_only_in_its_new_session_is_reported(simulation: Simulation) -> None:
    client = silent_client(simulation)
    simulation.agent(1, slow)
    client.say(in_graph(client, FIRST, 2, unwanted=1), in_graph(client, SECOND, 2))
    simulation.advance(1.0)
    client.connect()
    simulation.run()
    client.say(in_graph(client, FIRST, 2), in_graph(client, SECOND, 2, unwanted=1))
    simulation.advance(100.0)
    assert [statuses(client, each) for each in (FIRST, SECOND)] == [[SUCCESS], [SUCCESS]]


def test_a_task_that_its_client_has_sent_alone_does_not_run_with_its_graph_too(simulation: Simulation) -> None:
    client = silent_client(simulation)
    client.say(in_graph(client, FIRST, 2), in_graph(client, SECOND, 2, 1, dependencies=packed(0), options=NO_AGENT))
    agent = simulation.agent(1, located)
    simulation.advance(1.0)
    agent.leave()
    simulation.advance(1.0)
    assert requested(client) == [NEEDED]
    client.say(task(client, FIRST))
    agent = simulation.agent(1, slow)
    simulation.advance(1.0)
    client.connect()
    simulation.run()
    client.say(in_graph(client, FIRST, 2, unwanted=1), in_graph(client, SECOND, 2, 1, dependencies=packed(0)))
    simulation.advance(60.0)
    assert [run.task_id for run in agent.started] == [NEEDED]
    assert statuses(client, FIRST) == [SUCCESS] * 2
    client.say(TaskCancel(task_id(SECOND), graph_id=GRAPH))
    simulation.run()
    assert statuses(client, SECOND) == [TaskStatus.CANCELED]


@pytest.mark.parametrize("is_large", [False, True])
def test_a_task_of_an_open_graph_that_is_sent_alone_runs_only_if_its_result_is_gone(
    simulation: Simulation, *, is_large: bool
) -> None:
    client = simulation.client()
    client.numbers_tasks = True
    graph_id = client.submit_graph([(), (0,), ()], [1, 2])
    first, second, busy = (each.task_id for each in client.graphs[graph_id])
    agents = [simulation.agent(1, by_task({second: located if is_large else succeed, busy: slow})) for _ in range(2)]
    simulation.advance(1.0)
    (agent,) = (each for each in agents if busy not in each.queued)
    agent.leave()
    other = simulation.agent(1)
    simulation.run()
    assert client.lost == ([second] if is_large else [])
    client.open[second] = client.calls[second]
    client.say(client.calls[second])
    simulation.advance(60.0)
    assert client.open == {}
    assert [run.task_id for run in other.started] == ([first, second] if is_large else [])
    assert [result.task_id for result in client.said(TaskResult)].count(second) == 2


def test_a_lost_result_that_is_held_alone_is_made_again_by_its_graph_only(simulation: Simulation) -> None:
    simulation.tree.directory.owners.of("alice", OwnerTerms(tasks=2))
    client, agent = silent_client(simulation, user="alice"), simulation.agent(1, located)
    client.say(in_graph(client, FIRST, 2), in_graph(client, SECOND, 2, options=NO_AGENT))
    simulation.advance(1.0)
    client.say(task(client, THIRD, options=NO_AGENT))
    agent.leave()
    client.say(task(client, FIRST))
    simulation.run()
    client.connect()
    simulation.run()
    client.say(in_graph(client, FIRST, 2), in_graph(client, SECOND, 2, options=NO_AGENT))
    simulation.check()
    agent = simulation.agent(1, located)
    simulation.advance(10.0)
    assert [run.task_id for run in agent.started] == [NEEDED]


def test_a_result_that_was_reported_once_more_is_made_again_if_the_client_does_not_have_it(
    simulation: Simulation,
) -> None:
    client, agent = silent_client(simulation), simulation.agent(1)
    client.hang()
    client.say(task(client, FIRST))
    simulation.advance(1.0)
    client.hangs = False
    client.connect()
    simulation.run()
    client.say(task(client, SECOND, 1, inputs=NEEDED))
    simulation.run()
    assert requested(client) == [NEEDED]
    client.say(task(client, FIRST, unwanted=1))
    simulation.advance(1.0)
    assert statuses(client, SECOND) == [SUCCESS]
    assert [run.task_id for run in agent.started] == [NEEDED, NEEDED, task_id(SECOND)]
