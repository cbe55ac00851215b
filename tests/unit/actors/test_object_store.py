"""Who needs an object, and when it goes."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.actors.messages import (
    DeleteObject,
    FetchObject,
    OwnerLeft,
    ReleaseObjects,
    StoreObject,
    UseObjects,
)
from scaler.actors.object_store import ObjectStore, ObjectTable
from scaler.ids import ClientId, Connection, ObjectId
from scaler.wire.messages import InstructionKind, ObjectInstruction, ObjectResponse
from tests.support.bench import Bench, RecordingOutbox

ONE, OTHER = ObjectId(b"o" * 16), ObjectId(b"p" * 16)
ANN, BOB = ClientId(b"a" * 16), ClientId(b"b" * 16)
NODE, CLIENT = Connection(b"node"), Connection(b"client")


class Scene:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.outbox = RecordingOutbox()
        self.table = ObjectTable()
        self.store = bench.dispatcher.spawn(ObjectStore(self.table, self.outbox))

    def tell(self, *messages: Any) -> None:
        self.bench.tell(self.store, *messages)

    def keep(self, object_id: ObjectId = ONE, owner: ClientId = ANN, held: bool = True) -> None:
        self.tell(StoreObject(object_id, owner, "name", [b"12", b"345"], held))

    def is_empty(self) -> bool:
        return (self.table.objects, self.table.owned, self.table.users) == ({}, {}, {})


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench)


def test_a_stored_object_can_be_fetched(scene: Scene) -> None:
    scene.keep()
    scene.tell(FetchObject(ONE, CLIENT, caches=False))
    assert scene.outbox.said_to(CLIENT) == [ObjectResponse(ONE, 1, [b"12", b"345"])]
    assert scene.table.statistics() == {"objects": 1, "object_bytes": 5, "object_owners": 1}


def test_an_unknown_object_is_answered_as_not_found(scene: Scene) -> None:
    scene.tell(FetchObject(ONE, NODE, caches=True))
    assert scene.outbox.said_to(NODE) == [ObjectResponse(ONE, 0, ())]


def test_a_held_object_goes_when_its_client_deletes_it(scene: Scene) -> None:
    scene.keep()
    scene.tell(DeleteObject(ONE, ANN))
    assert scene.is_empty()


def test_nobody_can_delete_the_object_of_another(scene: Scene) -> None:
    scene.keep(held=False)
    scene.tell(DeleteObject(ONE, BOB))
    assert ONE in scene.table.objects


def test_a_deleted_object_stays_as_long_as_a_task_uses_it(scene: Scene) -> None:
    scene.keep()
    scene.tell(UseObjects(ONE), UseObjects(ONE), DeleteObject(ONE, ANN), ReleaseObjects(ONE))
    assert ONE in scene.table.objects
    scene.tell(ReleaseObjects(ONE))
    assert scene.is_empty()


def test_a_held_object_outlives_the_tasks_that_use_it(scene: Scene) -> None:
    scene.keep()
    scene.tell(UseObjects(ONE), ReleaseObjects(ONE))
    assert ONE in scene.table.objects


def test_an_object_for_a_task_goes_with_its_task(scene: Scene) -> None:
    scene.keep(held=False)
    scene.keep(OTHER, held=False)
    scene.tell(UseObjects(ONE + OTHER), ReleaseObjects(ONE + OTHER))
    assert scene.is_empty()


def test_an_object_for_a_task_that_never_comes_goes_with_its_client(scene: Scene) -> None:
    scene.keep(held=False)
    scene.tell(OwnerLeft(ANN))
    assert scene.is_empty()


def test_an_object_that_two_clients_sent_survives_the_first_that_leaves(scene: Scene) -> None:
    scene.keep(owner=ANN)
    scene.keep(owner=BOB)
    scene.tell(OwnerLeft(ANN))
    assert ONE in scene.table.objects
    scene.tell(OwnerLeft(BOB))
    assert scene.is_empty()


def test_an_object_of_a_client_that_left_stays_until_its_tasks_have_ended(scene: Scene) -> None:
    scene.keep()
    scene.tell(UseObjects(ONE), OwnerLeft(ANN))
    assert ONE in scene.table.objects
    scene.tell(ReleaseObjects(ONE))
    assert scene.is_empty()


def test_a_task_that_names_an_object_before_it_is_stored_takes_no_use_from_others(scene: Scene) -> None:
    scene.tell(UseObjects(ONE))
    scene.keep(held=False)
    scene.tell(UseObjects(ONE), ReleaseObjects(ONE))
    assert ONE in scene.table.objects
    scene.tell(ReleaseObjects(ONE))
    assert scene.is_empty()


def test_nodes_that_have_a_copy_are_told_to_forget_it_and_clients_are_not(scene: Scene) -> None:
    scene.keep()
    scene.tell(FetchObject(ONE, NODE, caches=True), FetchObject(ONE, CLIENT, caches=False))
    scene.outbox.said_to(NODE)
    scene.outbox.said_to(CLIENT)
    scene.tell(DeleteObject(ONE, ANN))
    assert scene.outbox.said_to(NODE) == [ObjectInstruction(InstructionKind.DELETE, ONE, "", ())]
    assert scene.outbox.said_to(CLIENT) == []


def test_deleting_or_releasing_what_is_not_there_is_no_mistake(scene: Scene) -> None:
    scene.tell(DeleteObject(ONE, ANN), ReleaseObjects(ONE), OwnerLeft(ANN))
    assert scene.is_empty()
