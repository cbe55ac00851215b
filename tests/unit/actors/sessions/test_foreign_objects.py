"""The ids of an owner's objects are worth nothing to another owner, in a request, a task or a graph."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scaler.actors.sessions.client_session import FOREIGN
from scaler.ids import ObjectId
from scaler.wire.messages.common import FOUND, NOT_FOUND, ObjectResponse, TaskStatus
from tests.support.simulation import Outcome, SimulatedClient, Simulation


class Scene(NamedTuple):
    """Two clients of Alice, one of Bob, none of them an admin, and what Alice has stored."""

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


def test_whoever_belongs_to_the_owner_reads_an_object_and_nobody_else(scene: Scene) -> None:
    assert scene.fetched(scene.also_alice, scene.object_id).found == FOUND
    refused = scene.fetched(scene.bob, scene.object_id)
    assert (refused.found, refused.frames, refused.reason) == (NOT_FOUND, (), "it does not belong to bob")
    scene.simulation.tree.directory.peers["client", scene.bob.client_id].is_admin = True
    assert scene.fetched(scene.bob, scene.object_id).found == FOUND


def test_a_result_is_its_owners(scene: Scene) -> None:
    scene.simulation.agent(1, lambda _run: Outcome(frames=(b"result",)))
    (task_id,) = scene.alice.submit(1)
    scene.simulation.advance(1.0)
    assert scene.fetched(scene.also_alice, ObjectId(task_id)).found == FOUND
    assert scene.fetched(scene.bob, ObjectId(task_id)).found == NOT_FOUND


def test_a_task_gets_no_object_of_another_owner(scene: Scene) -> None:
    agent = scene.simulation.agent(2)
    (own,) = scene.also_alice.submit(1, uses=[scene.object_id])
    (stolen,) = scene.bob.submit(1, uses=[scene.object_id])
    scene.simulation.advance(1.0)
    assert scene.also_alice.results[own].status == TaskStatus.SUCCESS
    assert scene.bob.results[stolen].status == TaskStatus.MISSING_OBJECTS
    assert scene.bob.results[stolen].payload == FOREIGN
    assert len(agent.started) == 1


def test_a_nested_client_reads_for_the_task_that_it_is_in(scene: Scene) -> None:
    agent = scene.simulation.agent(1)
    nested = scene.simulation.nested_client(agent)
    assert scene.fetched(nested, scene.object_id).found == FOUND


def test_functions_are_shared(scene: Scene) -> None:
    scene.simulation.agent(1)
    (first,), (second,) = scene.alice.submit(1), scene.bob.submit(1)
    scene.simulation.advance(1.0)
    assert scene.alice.results[first].status == scene.bob.results[second].status == TaskStatus.SUCCESS
