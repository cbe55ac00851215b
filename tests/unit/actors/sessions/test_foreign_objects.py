"""The ids of an owner's objects and tasks are of no use to another owner who is not an admin."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scaler.actors.sessions.client_objects import FOREIGN
from scaler.actors.sessions.client_session import ClientSession
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.messages.client import (
    ExplainRequest,
    ExplainResponse,
    OutputLine,
    OutputRequest,
    Task,
)
from scaler.wire.messages.common import FOUND, NOT_FOUND, ObjectResponse, OutputStream, TaskStatus
from scaler.wire.messages.worker import RunOutput
from tests.support.simulation import Outcome, SimulatedClient, Simulation

NOWHERE = TaskId(b"nobody's task...")


class Scene(NamedTuple):
    """Two clients of Alice and one of Bob, none of them an admin, and an object of Alice."""

    simulation: Simulation
    alice: SimulatedClient
    also_alice: SimulatedClient
    bob: SimulatedClient
    object_id: ObjectId

    def fetched(self, client: SimulatedClient, object_id: ObjectId) -> ObjectResponse:
        client.fetch(object_id)
        self.simulation.run()
        found: ObjectResponse = client.said(ObjectResponse)[-1]
        return found


@pytest.fixture
def scene(simulation: Simulation) -> Scene:
    alice, also_alice, bob = (simulation.client(user=user) for user in ("alice", "alice", "bob"))
    for client in (alice, also_alice, bob):
        simulation.tree.directory.peers["client", client.client_id].is_admin = False
    return Scene(simulation, alice, also_alice, bob, alice.create(b"secret"))


def test_only_clients_of_its_owner_and_admins_can_read_an_object(scene: Scene) -> None:
    assert scene.fetched(scene.also_alice, scene.object_id).found == FOUND
    refused = scene.fetched(scene.bob, scene.object_id)
    assert (refused.found, refused.frames, refused.reason) == (NOT_FOUND, (), "it does not belong to bob")
    scene.simulation.tree.directory.peers["client", scene.bob.client_id].is_admin = True
    assert scene.fetched(scene.bob, scene.object_id).found == FOUND


def test_a_result_belongs_to_the_owner_of_its_task(scene: Scene) -> None:
    scene.simulation.agent(1, lambda _run: Outcome(frames=(b"result",)))
    (task_id,) = scene.alice.submit(1)
    scene.simulation.advance(1.0)
    assert scene.fetched(scene.also_alice, ObjectId(task_id)).found == FOUND
    assert scene.fetched(scene.bob, ObjectId(task_id)).found == NOT_FOUND


def test_the_number_of_remembered_graphs_refused_for_foreign_objects_is_limited(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.dependencies.waiting_tasks.REFUSED_MOST", 3)
    for number in range(5):
        graph_id = GraphId(bytes([9, number]) * 8)
        task_id = TaskId(bytes([8, number]) * 8)
        what = task_id, scene.bob.function_id, b"", scene.object_id
        scene.bob.say(Task(*what, graph_id=graph_id, graph_tasks=2))
    scene.simulation.run()
    refused = [each for each in scene.bob.surplus if each.status == TaskStatus.MISSING_OBJECTS]
    assert len(refused) == 5
    sessions = [each for each in scene.simulation.sessions(ClientSession) if each._owner.name == "bob"]
    assert [len(each._waiting._refused) for each in sessions] == [3]


def test_a_task_that_names_an_object_of_another_owner_does_not_receive_it(scene: Scene) -> None:
    agent = scene.simulation.agent(2)
    (own,) = scene.also_alice.submit(1, uses=[scene.object_id])
    (stolen,) = scene.bob.submit(1, uses=[scene.object_id])
    scene.simulation.advance(1.0)
    assert scene.also_alice.results[own].status == TaskStatus.SUCCESS
    assert scene.bob.results[stolen].status == TaskStatus.MISSING_OBJECTS
    assert scene.bob.results[stolen].payload == FOREIGN.encode()
    assert len(agent.started) == 1


def test_an_admin_receives_states_and_output_of_tasks_of_other_owners(scene: Scene) -> None:
    agent = scene.simulation.agent(1, lambda _run: Outcome(seconds=1000.0))
    running, waiting = scene.alice.submit(2)
    scene.simulation.advance(1.0)
    run = agent.started[0]
    agent.say(RunOutput(running, run.worker, run.attempt, OutputStream.STANDARD_OUTPUT, 7, 0, "half"))
    scene.simulation.run()
    for is_admin, states, written in ((False, ["", ""], 0), (True, ["running", "inactive"], 1)):
        scene.simulation.tree.directory.peers["client", scene.bob.client_id].is_admin = is_admin
        for task_id in (running, waiting, NOWHERE):
            scene.bob.say(ExplainRequest(task_id))
        scene.bob.say(OutputRequest(1, running))
        scene.simulation.advance(0.1)
        found = {each.task_id: each.state for each in scene.bob.said(ExplainResponse)[-3:]}
        assert found == {running: states[0], waiting: states[1], NOWHERE: ""}
        assert len(scene.bob.said(OutputLine)) == written
    scene.alice.leave()
    scene.simulation.run()
    scene.bob.say(ExplainRequest(running))
    scene.simulation.run()
    assert scene.bob.said(ExplainResponse)[-1].state == ""


def test_a_nested_client_can_read_objects_of_the_owner_of_its_task(scene: Scene) -> None:
    agent = scene.simulation.agent(1)
    nested = scene.simulation.nested_client(agent)
    assert scene.fetched(nested, scene.object_id).found == FOUND


def test_functions_are_shared_by_all_owners(scene: Scene) -> None:
    scene.simulation.agent(1)
    (first,), (second,) = scene.alice.submit(1), scene.bob.submit(1)
    scene.simulation.advance(1.0)
    assert scene.alice.results[first].status == scene.bob.results[second].status == TaskStatus.SUCCESS
