"""GraphValues: values exist while nodes need them, as bytes or as objects."""

from __future__ import annotations

import pytest

from scaler.actors.graphs.graph_node import SHARED_BYTES, GraphNodeState
from scaler.actors.graphs.graph_values import GraphValues
from scaler.actors.messages.objects import ReleaseObjects, StoreObject, UseObjects
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import ClientId, GraphId, ObjectId, TaskId, random_id
from scaler.pickling.serialization import VALUE, argument_block, result_argument
from scaler.wire.messages.client import GraphNode
from scaler.wire.messages.common import TaskStatus
from tests.support.bench import Bench

CLIENT = ClientId(b"c" * 16)


class Scene:
    """Two nodes that have ended, with small results, and one that needs both."""

    def __init__(self) -> None:
        bench = Bench()
        self.store, store = bench.recorder()
        self.suppliers: dict[ObjectId, ClientId] = {}
        self.nodes = [self.node(), self.node(), self.node(result_argument(0) + result_argument(1))]
        self.values = GraphValues(self.nodes, store, Owner("alice"), CLIENT, self.suppliers.get)
        for node in self.nodes[:2]:
            node.status, node.payload, node.needed_by = TaskStatus.SUCCESS, b"one", 1
        self.nodes[2].dependencies = (0, 1)
        self._run = bench.run

    @staticmethod
    def node(block: bytes = b"", object_ids: bytes = b"") -> GraphNodeState:
        ids = GraphId(random_id()), TaskId(random_id()), ObjectId(random_id())
        return GraphNodeState(GraphNode(*ids, block, object_ids, b"", wanted=0))

    def received(self) -> list[type]:
        """Return the types of messages that the object store has received since the last call."""
        self._run()
        return [type(message) for message in self.store.take()]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_small_results_are_a_part_of_the_arguments(scene: Scene) -> None:
    block, object_ids, near = scene.values.arguments(scene.nodes[2])
    assert block == argument_block(VALUE, b"one") * 2
    assert (object_ids, near) == (b"", None)
    assert scene.received() == []


def test_a_result_with_the_id_of_an_object_of_another_client_is_refused(scene: Scene) -> None:
    first = scene.nodes[0]
    scene.suppliers[ObjectId(first.task_id)] = CLIENT
    scene.values.keep(first, (bytes(70_000),), None)
    assert scene.received() == [StoreObject, UseObjects]
    second = scene.nodes[1]
    scene.suppliers[ObjectId(second.task_id)] = ClientId(b"d" * 16)
    with pytest.raises(ValueError, match="another client has an object with the id"):
        scene.values.keep(second, (bytes(70_000),), None)
    assert scene.received() == []


def test_a_result_that_many_nodes_need_is_an_object_until_the_last_has_used_it(scene: Scene) -> None:
    first = scene.nodes[0]
    first.payload, first.needed_by = bytes(SHARED_BYTES), 2
    scene.values.note_size(first.payload)
    assert scene.values.arguments(scene.nodes[2])[1] == first.task_id
    assert scene.received() == [StoreObject, UseObjects]
    first.needed_by = 0
    scene.values.drop(first)
    scene.values.drop(first)
    assert scene.received() == [ReleaseObjects]
    assert first.payload == b""


def test_a_wanted_result_stays_as_bytes(scene: Scene) -> None:
    first = scene.nodes[0]
    first.wanted, first.needed_by = 1, 0
    scene.values.drop(first)
    assert first.payload == b"one"


def test_a_node_that_has_not_ended_cannot_be_an_argument(scene: Scene) -> None:
    scene.nodes[1].status = None
    with pytest.raises(ValueError, match="node 1, which is not among"):
        scene.values.arguments(scene.nodes[2])


def test_a_failed_graph_releases_its_objects(scene: Scene) -> None:
    holding = scene.node(object_ids=random_id())
    scene.nodes.append(holding)
    scene.values.hold_arguments(holding)
    scene.values.hold_stored(scene.nodes[0])
    assert scene.received() == [UseObjects] * 2
    scene.values.release_all()
    assert scene.received() == [ReleaseObjects] * 2
