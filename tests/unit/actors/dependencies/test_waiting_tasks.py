"""WaitingTasks: waiting tasks, and the tasks of graphs, count until they end, however they end."""

from __future__ import annotations

import pytest

from scaler.actors.vocabulary.owners import Owner
from scaler.ids import GraphId, ObjectId
from scaler.keys.allowed import OwnerTerms
from scaler.wire.messages.client import InputResult, TaskCancel
from scaler.wire.messages.common import TaskStatus
from tests.support.simulation import Outcome, Simulation, succeed
from tests.unit.actors.dependencies.conftest import (
    DIAMOND,
    by_task,
    located,
    packed,
    slow,
    task,
    task_id,
)

GRAPH_ID = GraphId(b"g" * 16)


class Counts:
    """A client of alice, and what counts for it: as (tasks of alice, tasks in the client's window, waiting tasks)."""

    def __init__(self, simulation: Simulation, **terms: int) -> None:
        self.owner: Owner = simulation.tree.directory.owners.of("alice", OwnerTerms(**terms))
        self.client = simulation.client(user="alice")
        (self._session,) = simulation.all_client_sessions()

    def __call__(self) -> tuple[int, int, int]:
        statistics = self._session.statistics()
        return self.owner.tasks, statistics["tasks"], statistics["waiting"]


@pytest.fixture
def counts(simulation: Simulation) -> Counts:
    return Counts(simulation)


def test_a_graph_counts_as_a_whole_from_its_first_task_on(simulation: Simulation, counts: Counts) -> None:
    simulation.agent(1, slow)
    counts.client.say(task(counts.client, 1, graph_id=GRAPH_ID, graph_tasks=10))
    simulation.advance(1.0)
    assert counts() == (10, 0, 0)
    simulation.advance(40.0)
    assert counts() == (9, 0, 0)
    counts.client.say(task(counts.client, 2, 1, graph_id=GRAPH_ID, graph_tasks=10, dependencies=packed(0)))
    counts.client.say(TaskCancel(task_id(1), graph_id=GRAPH_ID))
    simulation.advance(1.0)
    assert counts() == (0, 0, 0)


@pytest.mark.parametrize("ends", ["failure", "cancel", "cancel of the need", "actor", "client"])
@pytest.mark.parametrize("is_running", [False, True])
def test_tasks_in_no_graph_count_until_they_end(ends: str, *, is_running: bool) -> None:
    simulation = Simulation()
    counts = Counts(simulation)
    client = counts.client
    outcome = Outcome(TaskStatus.FAILED if ends == "failure" else TaskStatus.SUCCESS, b"x", 30.0)
    (first,) = client.submit(1)
    agent = simulation.agent(1, by_task({first: succeed} if is_running else {}, lambda _run: outcome))
    second = client.submit_with_results(first)
    third = client.submit_with_results(second)
    simulation.advance(1.0)
    assert counts() == ((2, 2, 1) if is_running else (3, 3, 2))
    if ends == "failure":
        simulation.advance(40.0)
    elif ends == "client":
        client.leave()
        simulation.advance(1.0)
        assert counts.owner.tasks == 0
        simulation.check_empty()
        return
    elif ends == "actor":
        actor = simulation.task(second if is_running else first)
        assert actor is not None
        simulation.fail(actor.actor_ref)
        simulation.advance(1.0)
    else:
        client.cancel(second if is_running or ends == "cancel" else first)
        simulation.advance(1.0)
        if ends == "cancel" and not is_running:
            assert counts() == (1, 1, 0)
            simulation.advance(40.0)
    assert counts() == (0, 0, 0)
    status = {"failure": TaskStatus.FAILED, "actor": TaskStatus.INTERNAL_ERROR}.get(ends, TaskStatus.CANCELED)
    need = TaskStatus.SUCCESS if is_running or ends == "cancel" else status
    assert client.statuses([first, second, third]) == [need, status, status]
    assert agent.queued == []


@pytest.mark.parametrize("ends", ["success", "failure", "cancel", "actor", "client"])
def test_the_tasks_of_a_graph_count_until_they_end_for_the_owner_only(ends: str) -> None:
    simulation = Simulation()
    counts = Counts(simulation)
    client = counts.client
    outcome = Outcome(TaskStatus.FAILED if ends == "failure" else TaskStatus.SUCCESS, b"x", 30.0)
    graph_id = client.submit_graph([(), (), (0,), (1, 2)], [2, 3])
    nodes = [each.task_id for each in client.graphs[graph_id]]
    simulation.agent(2, by_task({nodes[1]: slow}, lambda _run: outcome))
    simulation.advance(1.0)
    assert counts() == (4, 0, 2)
    if ends == "cancel":
        client.cancel(nodes[3])
    elif ends == "client":
        client.leave()
    elif ends == "actor":
        actor = simulation.task(nodes[0])
        assert actor is not None
        simulation.fail(actor.actor_ref)
    simulation.advance(100.0)
    if ends == "client":
        assert counts.owner.tasks == 0
        simulation.check_empty()
        return
    assert counts() == (0, 0, 0)
    statuses = {"success": TaskStatus.SUCCESS, "failure": TaskStatus.FAILED, "cancel": TaskStatus.CANCELED}
    assert client.statuses() == [statuses.get(ends, TaskStatus.INTERNAL_ERROR)] * 2


def test_a_refused_graph_does_not_count(simulation: Simulation) -> None:
    counts = Counts(simulation, tasks=3)
    counts.client.submit_graph(DIAMOND, [0, 3])
    simulation.run()
    assert counts() == (0, 0, 0)
    assert counts.client.statuses() == [TaskStatus.NO_WORKER] * 2
    counts.client.submit_graph([(), (0,), (1,)], [2])
    simulation.run()
    assert counts() == (3, 0, 2)


@pytest.mark.parametrize("is_over", [False, True])
def test_a_task_that_makes_a_lost_result_again_counts_once(
    simulation: Simulation, counts: Counts, *, is_over: bool
) -> None:
    """It counts in the window of its client only if its graph has ended."""
    client = counts.client
    client.numbers_tasks = True
    first, second = (each.task_id for each in client.graphs[client.submit_graph([(), (0,)], [1])])
    (busy,) = client.submit(1)
    runs = {first: located, busy: slow, second: succeed if is_over else slow}
    agent = simulation.agent(1, by_task(runs))
    simulation.advance(0.05)
    last = client.submit_with_results(first, busy)
    agent.close_workers(1)
    other = simulation.agent(2, by_task(runs))
    other.kept.add(ObjectId(first))
    simulation.advance(1.0)
    assert counts() == ((2, 2, 1) if is_over else (3, 2, 1))
    runs[first] = slow
    agent.leave()
    simulation.run()
    assert counts() == ((3, 3, 1) if is_over else (4, 2, 1))
    simulation.advance(200.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    assert client.statuses([last]) == [TaskStatus.SUCCESS]
    assert counts() == (0, 0, 0)


def test_an_unwanted_task_that_no_task_needs_is_ignored(simulation: Simulation, counts: Counts) -> None:
    agent = simulation.agent(1)
    counts.client.say(task(counts.client, 1, unwanted=1), InputResult(task_id(2), TaskStatus.SUCCESS, b"value"))
    simulation.advance(1.0)
    assert (agent.started, counts()) == ([], (0, 0, 0))
