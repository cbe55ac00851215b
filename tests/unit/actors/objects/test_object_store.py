"""The object store: which objects are kept, and when they are removed."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from scaler.actors.messages.objects import (
    CopyKept,
    DeleteCopy,
    DeleteObject,
    FetchObject,
    HostLeft,
    InputLost,
    ObjectCame,
    ObjectLost,
    OwnerLeft,
    OwnerResubmits,
    OwnerResubmitted,
    PartCame,
    ReleaseObjects,
    RequestPart,
    StoreObject,
    SupplyObject,
    UseObjects,
)
from scaler.actors.objects import copies
from scaler.actors.objects import object_store as objects_module
from scaler.actors.objects.located import LocatedFrames
from scaler.actors.objects.object_store import LATE_SECONDS, ObjectStore
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.slices import SLICE_STEPS
from scaler.actors.vocabulary.events import Events
from scaler.actors.vocabulary.peer import Peer
from scaler.client.insight.presence import KINDS
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef
from scaler.shared_memory import SharedBlock
from scaler.wire.codec.codec import decode
from scaler.wire.messages.common import FOUND, LOST, NOT_FOUND, Chunk, ObjectPart, ObjectResponse
from scaler.wire.messages.directions import SCHEDULER_TO_AGENT
from scaler.wire.session.lost_frames import LostFrames
from scaler.wire.session.streamed import AHEAD, PART_BYTES, part_of, sizes_of
from tests.support.bench import Bench, RecordingOutbox, connected_peer
from tests.support.recorder import Recorder

ONE, OTHER = ObjectId(b"o" * 16), ObjectId(b"p" * 16)
ANN, BOB = ClientId(b"a" * 16), ClientId(b"b" * 16)
RETENTION_SECONDS = 60.0


class Scene:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.outbox = RecordingOutbox()
        self.node, self.client = connected_peer(b"node"), connected_peer(b"client")
        self.table = ObjectTable()
        self.events = Events()
        self.store = bench.dispatcher.spawn(ObjectStore(self.table, self.outbox, self.events, RETENTION_SECONDS))
        self.host, self.node_ref = bench.recorder()

    def tell(self, *messages: Any) -> None:
        self.bench.tell(self.store, *messages)

    def keep(
        self, object_id: ObjectId = ONE, owner: ClientId = ANN, held: bool = True, is_function: bool = False
    ) -> None:
        self.tell(StoreObject(object_id, owner, "name", [b"12", b"345"], held, is_function))

    def fetch(self, object_id: ObjectId = ONE) -> None:
        """Let the node request a copy."""
        self.tell(FetchObject(object_id, self.node, self.node_ref))

    def is_empty(self) -> bool:
        table = self.table
        return not any(
            (table.objects, table.owned, table.users, table.copies.hosts, table.copies.objects, table.retained.ends)
        )


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench)


def test_a_stored_object_can_be_fetched(scene: Scene) -> None:
    scene.keep()
    scene.tell(FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, 1, [b"12", b"345"])]
    assert scene.table.statistics() == {
        "objects": 1,
        "object_bytes": 5,
        "object_owners": 1,
        "retained_objects": 0,
    }


def test_an_unknown_object_is_answered_as_not_found(scene: Scene, bench: Bench) -> None:
    bench.advance(LATE_SECONDS)
    scene.fetch()
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 0, ())]


def test_a_young_scheduler_waits_for_the_owners_of_objects_that_hosts_ask_for(scene: Scene, bench: Bench) -> None:
    scene.fetch()
    scene.fetch(OTHER)
    scene.tell(FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, 0, ())], "its owner does not have it"
    scene.tell(OwnerResubmits(ANN))
    bench.advance(2 * LATE_SECONDS)
    assert scene.outbox.sent_to(scene.node) == []
    scene.keep()
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 1, [b"12", b"345"])]
    scene.tell(OwnerResubmitted(ANN))
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(OTHER, 0, ())]


def test_a_host_that_left_receives_no_object_that_it_requested(scene: Scene) -> None:
    scene.fetch()
    scene.tell(HostLeft(scene.node_ref))
    scene.keep()
    assert scene.outbox.sent_to(scene.node) == []
    assert not scene.table.copies.hosts


def test_requests_are_answered_when_a_client_that_resubmits_leaves(scene: Scene, bench: Bench) -> None:
    scene.tell(OwnerResubmits(ANN))
    scene.fetch()
    bench.advance(LATE_SECONDS)
    scene.tell(OwnerLeft(ANN))
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 0, ())]


def test_a_held_object_is_removed_when_its_client_deletes_it(scene: Scene) -> None:
    scene.keep()
    scene.tell(DeleteObject(ONE, ANN))
    assert scene.is_empty()


def test_a_client_cannot_delete_the_object_of_another_client(scene: Scene) -> None:
    scene.keep(held=False)
    scene.tell(DeleteObject(ONE, BOB))
    assert ONE in scene.table.objects


# Two clients, one id


def store(client: ClientId, content: bytes, **about: Any) -> StoreObject:
    return StoreObject(**{"object_id": ONE, "owner": client, "name": "", "frames": [content], "held": True, **about})


def sent_to(scene: Scene, client: ClientId) -> list[bytes]:
    """Return the frames that a client receives when it requests the object."""
    peer = connected_peer(client)
    peer.key = ("client", client)
    scene.tell(FetchObject(ONE, peer, None, by_value=True))
    return [b"".join(response.frames) for response in scene.outbox.sent_to(peer)]


def test_clients_with_the_same_id_do_not_disturb_each_other(scene: Scene) -> None:
    scene.tell(store(ANN, b"of Ann"), store(BOB, b"of Bob"))
    scene.fetch()
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 1, [b"of Ann"])]
    assert (sent_to(scene, ANN), sent_to(scene, BOB)) == ([b"of Ann"], [b"of Bob"])
    scene.tell(DeleteObject(ONE, BOB))
    assert sent_to(scene, ANN) == [b"of Ann"]
    assert scene.host.take() == []
    scene.tell(DeleteObject(ONE, ANN))
    assert scene.is_empty()


def test_an_object_stored_separately_replaces_the_removed_object_of_the_same_id(scene: Scene) -> None:
    scene.tell(store(ANN, b"of Ann"), store(BOB, b"of Bob"), OwnerLeft(ANN))
    assert sent_to(scene, BOB) == [b"of Bob"]
    assert scene.table.objects[ONE].owners == {BOB}
    scene.tell(OwnerLeft(BOB))
    assert scene.is_empty()


def test_a_result_is_stored_although_another_object_has_its_id(scene: Scene) -> None:
    """A client that knows the id of an open task may have stored an object with it."""
    scene.tell(store(BOB, b"forged", held=False), store(ANN, b"the result"))
    assert sent_to(scene, ANN) == [b"the result"]


def test_only_the_client_that_holds_a_shared_object_can_send_its_bytes(scene: Scene) -> None:
    _, session_ref = scene.bench.recorder()
    scene.tell(StoreObject(ONE, ANN, "", (), held=True, location=b"at Ann's", source=session_ref))
    scene.tell(store(BOB, b"forged"), StoreObject(ONE, BOB, "", (), held=True, location=b"at Bob's"))
    scene.fetch()
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 1, (), b"at Ann's")]
    scene.tell(store(ANN, b"of Ann"))
    assert sent_to(scene, ANN) == [b"of Ann"]


FORGED = [
    pytest.param({}, id="stored"),
    pytest.param({"held": False}, id="stored for a task"),
    pytest.param({"function_id": OTHER}, id="the result of a task with this id"),
    pytest.param({"owner": None, "held": False, "function_id": OTHER, "task_client": BOB}, id="made by a graph"),
]


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("is_of_graph", [False, True])
def test_only_its_client_can_replace_a_result_that_is_at_an_agent_or_lost(
    scene: Scene, forged: dict[str, Any], is_lost: bool, is_of_graph: bool
) -> None:
    maker = {"owner": None, "task_client": ANN} if is_of_graph else {"owner": ANN}
    scene.tell(UseObjects(ONE), replace(store(ANN, b"", function_id=OTHER, **maker), frames=located(scene)))
    if is_lost:
        scene.tell(HostLeft(scene.node_ref, "why"))
    scene.tell(replace(store(BOB, b"forged"), **forged))
    assert scene.table.supplier_of(ONE) == ANN
    assert scene.table.objects[ONE].frames == ()
    scene.tell(DeleteObject(ONE, BOB))
    assert not scene.table.objects[ONE].owners - {ANN}
    scene.tell(store(ANN, b"made again", function_id=OTHER, **maker))
    assert scene.table.objects[ONE].frames == [b"made again"]
    scene.tell(FetchObject(ONE, scene.node, scene.node_ref))
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, FOUND, [b"made again"])]


@pytest.mark.parametrize("is_of_graph", [False, True])
def test_a_result_replaces_an_object_that_another_client_stored_under_its_id(scene: Scene, is_of_graph: bool) -> None:
    maker = {"owner": None, "task_client": ANN} if is_of_graph else {"owner": ANN}
    scene.tell(store(BOB, b"forged"), store(BOB, b"forged", held=False))
    scene.tell(UseObjects(ONE), replace(store(ANN, b"", function_id=OTHER, **maker), frames=located(scene)))
    assert scene.table.supplier_of(ONE) == scene.table.maker_of(ONE) == ANN
    assert not scene.table.objects[ONE].owners - {ANN}
    scene.tell(store(BOB, b"forged again"), store(BOB, b"", function_id=OTHER))
    assert scene.table.supplier_of(ONE) == ANN


def test_the_supplier_of_an_object_is_found_by_its_id_but_not_of_a_function(scene: Scene) -> None:
    scene.keep()
    scene.keep(OTHER, is_function=True)
    assert [scene.table.supplier_of(each) for each in (ONE, OTHER)] == [ANN, None]
    assert scene.table.maker_of(ONE) is None


def test_a_function_replaces_other_objects_of_its_id(scene: Scene) -> None:
    """The id of a function is checked; that of another object is not."""
    scene.tell(store(BOB, b"forged"), store(ANN, b"other"), store(ANN, b"function", is_function=True))
    scene.fetch()
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 1, [b"function"])]
    scene.tell(store(BOB, b"forged"))
    assert sent_to(scene, ANN) == [b"function"]
    scene.tell(OwnerLeft(BOB), OwnerLeft(ANN))
    assert scene.table.objects == scene.table.owned == {}


def test_a_deleted_object_stays_while_a_task_uses_it(scene: Scene) -> None:
    scene.keep()
    scene.tell(UseObjects(ONE), UseObjects(ONE), DeleteObject(ONE, ANN), ReleaseObjects(ONE))
    assert ONE in scene.table.objects
    scene.tell(ReleaseObjects(ONE))
    assert scene.is_empty()


def test_a_held_object_outlives_the_tasks_that_use_it(scene: Scene) -> None:
    scene.keep()
    scene.tell(UseObjects(ONE), ReleaseObjects(ONE))
    assert ONE in scene.table.objects


def test_an_object_for_a_task_is_removed_with_its_task(scene: Scene) -> None:
    scene.keep(held=False)
    scene.keep(OTHER, held=False)
    scene.tell(UseObjects(ONE + OTHER), ReleaseObjects(ONE + OTHER))
    assert scene.is_empty()


def test_an_object_for_a_task_that_never_arrives_is_removed_with_its_client(scene: Scene) -> None:
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


def test_objects_of_a_client_that_left_are_removed_in_slices_or_at_once_if_it_returns(
    bench: Bench, scene: Scene
) -> None:
    many = [ObjectId(number.to_bytes(16, "big")) for number in range(3 * SLICE_STEPS)]
    for object_id in many:
        scene.tell(StoreObject(object_id, ANN, "", [b"x"], held=True))
    scene.store.send(OwnerLeft(ANN))
    bench.dispatcher.run(1)
    assert len(scene.table.objects) == len(many) - SLICE_STEPS
    scene.tell(StoreObject(many[0], ANN, "", [b"new"], held=True))
    bench.advance(1.0)
    assert list(scene.table.objects) == [many[0]]
    assert scene.table.owned == {ANN: {many[0]}}
    assert scene.table.leaving == {}


def test_a_use_of_an_object_before_it_is_stored_does_not_count_for_later_uses(scene: Scene) -> None:
    scene.tell(UseObjects(ONE))
    scene.keep(held=False)
    scene.tell(UseObjects(ONE), ReleaseObjects(ONE))
    assert ONE in scene.table.objects
    scene.tell(ReleaseObjects(ONE))
    assert scene.is_empty()


def test_hosts_with_a_copy_are_requested_to_delete_it_and_clients_are_not(scene: Scene) -> None:
    scene.keep()
    scene.fetch()
    scene.tell(FetchObject(ONE, scene.client, None))
    scene.outbox.sent_to(scene.client)
    scene.tell(DeleteObject(ONE, ANN))
    assert scene.host.take() == [DeleteCopy(ONE)]
    assert scene.outbox.sent_to(scene.client) == []
    assert scene.is_empty()


def test_deleting_or_releasing_an_unknown_object_is_ignored(scene: Scene) -> None:
    scene.tell(DeleteObject(ONE, ANN), ReleaseObjects(ONE), OwnerLeft(ANN))
    assert scene.is_empty()


# Copies of functions


def test_an_unused_function_is_forgotten_at_once_and_its_copies_after_the_retention_time(
    bench: Bench, scene: Scene
) -> None:
    scene.keep(is_function=True)
    scene.fetch()
    scene.tell(OwnerLeft(ANN))
    assert scene.table.objects == {}
    assert scene.table.statistics()["retained_objects"] == 1
    bench.advance(RETENTION_SECONDS - 1)
    assert scene.host.take() == []
    bench.advance(1)
    assert scene.host.take() == [DeleteCopy(ONE)]
    assert scene.is_empty()


def test_an_unused_function_without_copies_is_forgotten_completely(scene: Scene) -> None:
    scene.keep(is_function=True)
    scene.tell(OwnerLeft(ANN))
    assert scene.is_empty()


def test_a_function_stored_again_keeps_its_copies_for_a_whole_retention_time_after_use(
    bench: Bench, scene: Scene
) -> None:
    scene.keep(is_function=True)
    scene.fetch()
    scene.tell(OwnerLeft(ANN))
    bench.advance(RETENTION_SECONDS / 2)
    scene.keep(owner=BOB, is_function=True)
    bench.advance(RETENTION_SECONDS)
    scene.tell(DeleteObject(ONE, BOB))
    bench.advance(RETENTION_SECONDS - 1)
    assert scene.host.take() == []
    bench.advance(1)
    assert scene.host.take() == [DeleteCopy(ONE)]


def test_each_function_is_retained_for_its_own_time(bench: Bench, scene: Scene) -> None:
    for object_id in (ONE, OTHER):
        scene.keep(object_id, is_function=True)
        scene.fetch(object_id)
    scene.tell(DeleteObject(ONE, ANN))
    bench.advance(10)
    scene.tell(DeleteObject(OTHER, ANN))
    bench.advance(RETENTION_SECONDS - 10)
    assert scene.host.take() == [DeleteCopy(ONE)]
    bench.advance(10)
    assert scene.host.take() == [DeleteCopy(OTHER)]


def test_without_a_retention_time_copies_are_deleted_at_once(bench: Bench) -> None:
    scene = Scene(bench)
    scene.store = bench.dispatcher.spawn(ObjectStore(scene.table, scene.outbox, scene.events, 0))
    scene.keep(is_function=True)
    scene.fetch()
    scene.tell(OwnerLeft(ANN))
    assert scene.host.take() == [DeleteCopy(ONE)]
    assert scene.is_empty()


def test_a_restarted_store_continues_the_retention(bench: Bench, scene: Scene) -> None:
    scene.keep(is_function=True)
    scene.fetch()
    scene.tell(OwnerLeft(ANN))
    bench.advance(20)
    scene.store.stop(block=False)
    bench.run()
    bench.dispatcher.spawn(ObjectStore(scene.table, scene.outbox, scene.events, RETENTION_SECONDS))
    bench.advance(RETENTION_SECONDS - 20)
    assert scene.host.take() == [DeleteCopy(ONE)]


def test_a_node_that_left_has_no_copies(bench: Bench, scene: Scene) -> None:
    other, other_ref = bench.recorder()
    scene.keep()
    scene.keep(OTHER, is_function=True)
    for object_id in (ONE, OTHER):
        scene.fetch(object_id)
    scene.tell(FetchObject(ONE, scene.node, other_ref), OwnerLeft(BOB), HostLeft(scene.node_ref), OwnerLeft(ANN))
    assert other.take() == [DeleteCopy(ONE)]
    assert scene.host.take() == []
    assert scene.is_empty()


def test_the_last_node_with_a_retained_function_may_leave(scene: Scene) -> None:
    scene.keep(is_function=True)
    scene.fetch()
    scene.tell(OwnerLeft(ANN), HostLeft(scene.node_ref))
    assert scene.is_empty()


def test_a_host_that_reconnects_reports_its_copies_and_is_requested_to_delete_unknown_ones(scene: Scene) -> None:
    scene.keep()
    scene.tell(CopyKept(ONE, scene.node_ref), CopyKept(OTHER, scene.node_ref))
    assert scene.host.take() == [DeleteCopy(OTHER)]
    scene.tell(DeleteObject(ONE, ANN))
    assert scene.host.take() == [DeleteCopy(ONE)]


def test_copies_of_agents_that_had_another_scheduler_wait_for_their_client(bench: Bench, scene: Scene) -> None:
    pending = [CopyKept(object_id, scene.node_ref, is_early=True) for object_id in (ONE, OTHER)]
    scene.tell(*pending)
    scene.keep()
    bench.advance(RETENTION_SECONDS)
    assert scene.host.take() == [DeleteCopy(OTHER)]
    scene.tell(DeleteObject(ONE, ANN))
    assert scene.host.take() == [DeleteCopy(ONE)]


def test_an_early_copy_of_a_result_that_is_computed_again_is_deleted(scene: Scene) -> None:
    scene.tell(CopyKept(ONE, scene.node_ref, is_early=True))
    scene.tell(UseObjects(ONE), StoreObject(ONE, None, "", [b"result"], held=False))
    assert scene.host.take() == [DeleteCopy(ONE)]


# Objects whose bytes are at their client


@pytest.fixture
def session(scene: Scene) -> Recorder:
    """Return the session of a client that shares the object ONE."""
    session = Recorder()
    source = scene.bench.dispatcher.spawn(session)
    scene.tell(StoreObject(ONE, ANN, "name", (), True, location=b"there", source=source))
    return session


def share_again(scene: Scene, session: Recorder) -> None:
    scene.tell(StoreObject(ONE, ANN, "name", (), True, location=b"elsewhere", source=session.actor_ref))


def test_a_host_receives_the_location_of_a_shared_object(scene: Scene, session: Recorder) -> None:
    scene.tell(FetchObject(ONE, scene.node, scene.node_ref))
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 1, (), b"there")]
    assert scene.table.statistics()["object_bytes"] == 0
    assert session.messages == []


def test_a_host_that_cannot_open_a_location_receives_the_bytes_from_the_client(scene: Scene, session: Recorder) -> None:
    scene.tell(
        FetchObject(ONE, scene.node, scene.node_ref, by_value=True), FetchObject(ONE, scene.client, None, by_value=True)
    )
    assert session.messages == [SupplyObject(ONE)]  # once for both
    scene.keep()
    for peer in (scene.node, scene.client):
        assert scene.outbox.sent_to(peer) == [ObjectResponse(ONE, 1, [b"12", b"345"])]
    scene.tell(FetchObject(ONE, scene.node, scene.node_ref, by_value=True))  # now the scheduler has them
    assert scene.outbox.sent_to(scene.node)[-1] == ObjectResponse(ONE, 1, [b"12", b"345"])
    assert scene.table.statistics()["object_bytes"] == 5


def test_a_peer_that_repeats_its_request_after_a_lost_connection_receives_the_bytes_once(
    scene: Scene, session: Recorder
) -> None:
    for _ in range(2):
        scene.tell(FetchObject(ONE, scene.node, scene.node_ref, by_value=True))
    scene.keep()
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 1, [b"12", b"345"])]


def test_a_client_that_reconnects_is_requested_for_the_bytes_again(scene: Scene, session: Recorder) -> None:
    scene.tell(FetchObject(ONE, scene.node, scene.node_ref, by_value=True))
    share_again(scene, session)
    assert session.messages == [SupplyObject(ONE), SupplyObject(ONE)]
    scene.tell(FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, 1, (), b"elsewhere")]


def test_a_client_that_reconnects_is_not_requested_for_bytes_that_are_not_needed(
    scene: Scene, session: Recorder
) -> None:
    share_again(scene, session)
    assert session.messages == []


def test_a_pending_request_for_bytes_is_answered_when_their_client_leaves(scene: Scene, session: Recorder) -> None:
    scene.tell(FetchObject(ONE, scene.node, scene.node_ref, by_value=True), OwnerLeft(ANN))
    assert ObjectResponse(ONE, 0, ()) in scene.outbox.sent_to(scene.node)
    assert scene.is_empty()


def test_retained_functions_above_the_size_limit_are_deleted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "RETAINED_BYTES_MOST", 5)  # as large as one of them
    for object_id in (ONE, OTHER):
        scene.keep(object_id, is_function=True)
        scene.fetch(object_id)
    scene.tell(DeleteObject(ONE, ANN))
    assert scene.host.take() == []
    scene.tell(DeleteObject(OTHER, ANN))
    assert scene.host.take() == [DeleteCopy(ONE)]
    assert scene.table.retained.size_bytes == 5


def test_shared_bytes_of_a_client_are_counted_until_they_arrive_or_are_deleted(scene: Scene, session: Recorder) -> None:
    def counted() -> tuple[int, int]:
        return scene.table.size_bytes, scene.table.shared_bytes

    block = SharedBlock.of([b"123", b"4567"])
    place = {"held": True, "location": block.location(), "source": session.actor_ref}
    scene.tell(StoreObject(ONE, ANN, "shared", (), **place), StoreObject(OTHER, ANN, "sent", [b"12"], held=True))
    assert counted() == (9, 7)
    scene.tell(StoreObject(ONE, ANN, "shared", (), **place))
    assert counted() == (9, 7)
    scene.tell(StoreObject(ONE, ANN, "shared", [b"1234567"], held=True))
    assert counted() == (9, 0)
    scene.tell(DeleteObject(ONE, ANN), DeleteObject(OTHER, ANN))
    assert counted() == (0, 0)
    scene.tell(StoreObject(ONE, ANN, "", (), held=True, location=b"nonsense", source=session.actor_ref))
    assert counted() == (0, 0)


# Objects that were lost in transit


def lost() -> StoreObject:
    return StoreObject(ONE, ANN, "name", LostFrames(700), held=True)


def test_an_object_that_was_too_large_to_keep_is_missing_and_the_answer_says_why(scene: Scene) -> None:
    scene.tell(lost())
    scene.fetch()
    (answer,) = scene.outbox.sent_to(scene.node)
    assert (answer.object_id, answer.found, answer.frames) == (ONE, 0, ())
    assert "no memory for its 700 bytes" in answer.reason
    scene.tell(DeleteObject(ONE, ANN), HostLeft(scene.node_ref))
    assert scene.is_empty()


def test_a_lost_object_exists_again_when_its_client_has_resubmitted_it(scene: Scene) -> None:
    scene.tell(lost())
    scene.keep()
    scene.fetch()
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, 1, [b"12", b"345"])]
    assert scene.table.size_bytes == 5


def test_a_request_for_bytes_that_are_lost_meanwhile_is_answered_as_missing(scene: Scene) -> None:
    scene.tell(StoreObject(ONE, ANN, "name", (), held=True, location=b"there", source=scene.bench.recorder()[1]))
    scene.tell(FetchObject(ONE, scene.node, scene.node_ref, by_value=True), lost())
    (answer,) = scene.outbox.sent_to(scene.node)
    assert (answer.found, "no memory" in answer.reason) == (0, True)


# Results that agents keep


def located(scene: Scene) -> LocatedFrames:
    return LocatedFrames(SharedBlock.of([bytes(70_000)]).location(), scene.node_ref)


def keep_located(scene: Scene) -> tuple[LocatedFrames, Recorder]:
    """Store a result of a client that is kept at the node. Return its frames and the recorder of its session."""
    frames = located(scene)
    session, session_ref = scene.bench.recorder()
    scene.tell(StoreObject(ONE, ANN, "", frames, held=True, source=session_ref))
    return frames, session


def test_a_result_keeps_the_name_of_its_function_when_the_function_is_deleted(scene: Scene) -> None:
    scene.keep(OTHER, is_function=True)
    scene.tell(StoreObject(ONE, ANN, "", located(scene), held=True, function_id=OTHER), DeleteObject(OTHER, ANN))
    stored = scene.table.objects[ONE]
    assert (stored.name, KINDS[stored.kind_for(ANN)]) == ("name", "result")


def test_a_request_for_a_result_at_an_agent_is_answered_with_its_location(scene: Scene) -> None:
    frames, _ = keep_located(scene)
    scene.tell(FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, FOUND, (), frames.location)]
    assert (scene.table.size_bytes, scene.table.shared_bytes) == (70_000, 70_000)


def part(frames: list[bytes], location: bytes = b"", offset: int = 0) -> ObjectPart:
    sizes = b"" if offset else sizes_of(frames)
    return ObjectPart(ONE, location, offset, sizes, (part_of(frames, offset, PART_BYTES),))


def test_a_peer_that_cannot_open_a_location_receives_the_bytes_which_are_not_kept(scene: Scene) -> None:
    frames, _ = keep_located(scene)
    scene.tell(FetchObject(ONE, scene.client, None, by_value=True))
    assert scene.host.take(RequestPart) == [RequestPart(ONE, frames.location, 0)]
    scene.tell(PartCame(scene.node_ref, part([b"by", b"", b"tes"], frames.location)))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, FOUND, [b"by", b"", b"tes"])]
    assert scene.table.objects[ONE].frames == ()


def test_a_host_that_has_computed_the_result_it_requested_is_not_sent_it(scene: Scene) -> None:
    keep_located(scene)
    _, other_ref = scene.bench.recorder()
    scene.tell(*(FetchObject(ONE, *who, by_value=True) for who in ((scene.client, None), (scene.node, other_ref))))
    made = LocatedFrames(located(scene).location, other_ref)
    scene.tell(StoreObject(ONE, ANN, "", made, held=True))
    assert list(scene.table.objects[ONE].waiting) == [scene.client]


def test_a_host_that_requests_a_lost_result_from_itself_is_answered_with_the_loss(scene: Scene) -> None:
    _, session = keep_located(scene)
    other, other_ref = scene.bench.recorder()
    scene.tell(FetchObject(ONE, scene.node, other_ref, by_value=True), HostLeft(scene.node_ref, "why"))
    assert other.take(RequestPart) == [RequestPart(ONE, b"", 0)]
    scene.tell(PartCame(other_ref, ObjectPart(ONE, b"", 0, b"", (), "it has none")))
    [answer] = scene.outbox.sent_to(scene.node)
    assert (answer.found, answer.reason) == (LOST, "it has none")
    assert session.take(ObjectLost) == [ObjectLost(ONE, "it has none")]


LARGE = [bytes(range(256)) * 4000, b"", b"tail" * 500_000]
N_PARTS = -(-sum(map(len, LARGE)) // PART_BYTES)


def test_a_host_that_has_computed_a_large_result_it_requested_is_not_streamed_its_own_value(scene: Scene) -> None:
    scene.tell(FetchObject(ONE, scene.node, scene.node_ref, by_value=True))
    frames, _ = keep_located(scene)
    assert len(scene.host.take(RequestPart)) == 1
    scene.tell(PartCame(scene.node_ref, part(LARGE, frames.location)))
    assert not scene.node.pipe.has_pending
    scene.tell(FetchObject(ONE, scene.client, None, by_value=True))
    assert scene.client.pipe.has_pending


class Passing:
    """A large value at the node, and readers that cannot open its location."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.frames, self.session = keep_located(scene)
        self.got = {b"client": b"", b"second": b""}
        self.sizes: dict[bytes, bytes] = {}
        self.asked: list[int] = []

    def fetch(self, peer: Peer) -> None:
        self.scene.tell(FetchObject(ONE, peer, None, by_value=True))

    def supply(self) -> bool:
        """Let the node send the parts that were requested. Return whether there were any."""
        wanted = self.scene.host.take(RequestPart)
        self.asked += [each.offset for each in wanted]
        for each in wanted:
            assert each.location == self.frames.location
            self.scene.tell(PartCame(self.scene.node_ref, part(LARGE, each.location, each.offset)))
        return bool(wanted)

    def leave(self, peer: Peer) -> list[Chunk]:
        """Send all that may be sent to a reader, acknowledge it, and return it."""
        chunks = []
        while messages := peer.pipe.take():
            for header, frames in messages:
                chunks += [chunk for batch in decode(SCHEDULER_TO_AGENT, header, frames) for chunk in batch]
            peer.pipe._drop_acknowledged(peer.pipe.last_sent)
        self.scene.bench.dispatcher.run()
        for chunk in chunks:
            if type(chunk) is Chunk and not chunk.sizes:
                self.got[peer.connection] += b"".join(map(bytes, chunk.frames))
        return chunks

    def here(self) -> int:
        stream = self.scene.table.objects[ONE].stream
        return 0 if stream is None else sum(map(len, stream._parts.values()))


def test_a_large_value_is_transferred_part_by_part(scene: Scene) -> None:
    passing = Passing(scene)
    passing.fetch(scene.client)
    most = 0
    while passing.supply():
        most = max(most, passing.here())
        passing.leave(scene.client)
    assert passing.got[b"client"] == b"".join(LARGE)
    assert passing.asked == [number * PART_BYTES for number in range(N_PARTS)], "each once"
    assert (most <= AHEAD * PART_BYTES, passing.here()) == (True, 0)


def test_a_host_that_has_received_a_whole_value_is_asked_for_parts_only_until_it_leaves(scene: Scene) -> None:
    passing, second, third = Passing(scene), connected_peer(b"second"), connected_peer(b"client")
    (_, host), (_, other) = scene.bench.recorder(), scene.bench.recorder()
    scene.tell(FetchObject(ONE, second, host, by_value=True))
    scene.table.copies.remove(ONE, host)  # it was asked for its copy before it had one
    while passing.supply():
        passing.leave(second)
    assert passing.got[b"second"] == b"".join(LARGE)
    scene.tell(HostLeft(host), FetchObject(ONE, third, other, by_value=True))
    passing.leave(third)
    assert passing.supply(), "no other host has the value"


def test_no_further_part_is_requested_while_the_reader_takes_none(scene: Scene) -> None:
    passing = Passing(scene)
    passing.fetch(scene.client)
    assert passing.supply()
    assert not passing.supply()
    passing.leave(scene.client)
    assert passing.supply()


def test_readers_share_the_parts_and_do_not_wait_for_each_other(scene: Scene) -> None:
    passing, second = Passing(scene), connected_peer(b"second")
    passing.fetch(scene.client)
    passing.fetch(second)
    while passing.supply():
        passing.leave(scene.client)
        passing.leave(second)
    assert passing.asked == [number * PART_BYTES for number in range(N_PARTS)]
    assert passing.got == {b"client": b"".join(LARGE), b"second": b"".join(LARGE)}
    late, slow = connected_peer(b"client"), connected_peer(b"second")
    passing.got = {b"client": b"", b"second": b""}
    passing.fetch(late)
    passing.fetch(slow)
    while passing.leave(late) or passing.supply():
        assert passing.here() <= 2 * AHEAD * PART_BYTES
    assert passing.got == {b"client": b"".join(LARGE), b"second": b""}
    while passing.leave(slow) or passing.supply():
        pass
    assert passing.got[b"second"] == b"".join(LARGE)


def test_a_late_host_waits_and_receives_the_value_from_a_host_that_has_it(scene: Scene) -> None:
    passing, second, third = Passing(scene), connected_peer(b"client"), connected_peer(b"second")
    hosts = [scene.bench.recorder() for _ in range(2)]

    def join(peer: Peer, ref: ActorRef) -> None:
        scene.tell(FetchObject(ONE, peer, ref, by_value=True))

    join(second, hosts[0][1])
    passing.supply()
    passing.leave(second)
    join(third, hosts[1][1])
    assert passing.leave(third) == []
    while passing.supply():
        assert passing.leave(third) == []
        passing.leave(second)
    assert passing.got[b"client"] == b"".join(LARGE)
    passing.leave(third)
    [first, *_] = wanted = hosts[0][0].take(RequestPart)
    assert first == RequestPart(ONE, b"", 0)
    scene.tell(PartCame(hosts[0][1], ObjectPart(ONE, b"", 0, b"", (), "it has none")))
    while passing.supply():
        passing.leave(third)
    assert passing.got[b"second"] == b"".join(LARGE), "its agent has sent it then"
    assert passing.asked[: N_PARTS + len(wanted)] == [
        *(number * PART_BYTES for number in range(N_PARTS)),
        *(each.offset for each in wanted),
    ]


def test_a_late_host_does_not_wait_for_a_lost_host(scene: Scene) -> None:
    passing, second, third = Passing(scene), connected_peer(b"client"), connected_peer(b"second")
    _, gone = scene.bench.recorder()
    _, other = scene.bench.recorder()
    scene.tell(FetchObject(ONE, second, gone, by_value=True))
    passing.supply()
    passing.leave(second)
    scene.tell(FetchObject(ONE, third, other, by_value=True))
    assert passing.leave(third) == []
    scene.tell(HostLeft(gone))
    while passing.leave(third) or passing.supply():
        pass
    assert passing.got[b"second"] == b"".join(LARGE)


class Together:
    """A value of many parts on its way from its agent to hosts and a client, each of its own speed."""

    def __init__(self, scene: Scene, n_hosts: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("scaler.wire.session.streamed.PART_BYTES", 1 << 15)
        monkeypatch.setitem(globals(), "PART_BYTES", 1 << 15)
        self.passing = Passing(scene)
        self.peers = [connected_peer(bytes([number])) for number in range(n_hosts)]
        self.hosts = [scene.bench.recorder() for _ in range(n_hosts)]
        self.sent = [0] * (n_hosts + 1)
        """the bytes that each host has sent, and last those of the agent of the value"""
        self.passing.got.update(dict.fromkeys((peer.connection for peer in self.peers), b""))
        pairs = zip(self.peers, self.hosts, strict=True)
        scene.tell(*(FetchObject(ONE, peer, ref, by_value=True) for peer, (_, ref) in pairs))

    def supply(self) -> bool:
        """Let all hosts send the parts that were requested. Return whether there were any."""
        scene = self.passing.scene
        sources = [*self.hosts, (scene.host, scene.node_ref)]
        wanted = [(number, each) for number, (host, _) in enumerate(sources) for each in host.take(RequestPart)]
        for number, each in wanted:
            came = part(LARGE, each.location, each.offset)
            self.sent[number] += len(came.frames[0])
            scene.tell(PartCame(sources[number][1], came))
        return bool(wanted)

    def read(self, peer: Peer) -> None:
        """Let a reader receive parts until no further one arrives."""
        while self.passing.leave(peer) or self.supply():
            pass

    def got_all(self, *peers: Peer) -> bool:
        return all(self.passing.got[peer.connection] == b"".join(LARGE) for peer in peers)


def test_the_agent_of_a_value_sends_it_less_than_twice_however_late_hosts_request_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Together(scene, 4, monkeypatch)
    first, second, third, last = together.peers
    together.supply()
    for peer in together.peers:  # all transfers have started
        together.passing.leave(peer)
    for peer in (first, second, third):
        together.read(peer)
    assert together.got_all(first)
    together.read(last)
    assert together.got_all(*together.peers)
    n_bytes = sum(map(len, LARGE))
    assert all(sent <= 1.6 * n_bytes for sent in together.sent), together.sent
    assert sum(together.sent) >= 2 * n_bytes


def test_a_host_awaits_a_value_until_all_parts_have_been_sent_to_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Together(scene, 1, monkeypatch)
    ref = together.hosts[0][1]
    assert scene.table.awaited_by(ref) == {ONE}
    together.supply()
    together.passing.leave(together.peers[0])
    assert scene.table.awaited_by(ref) == {ONE}
    together.read(together.peers[0])
    assert scene.table.awaited_by(ref) == set()
    scene.tell(FetchObject(OTHER, together.peers[0], ref))
    assert scene.table.awaited_by(ref) == {OTHER}


def test_hosts_that_wait_for_the_first_host_continue_when_it_is_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Together(scene, 3, monkeypatch)
    monkeypatch.setattr("scaler.wire.session.streamed.REPEATED_MOST", 0.0)
    first, *others = together.peers
    together.supply()
    for peer in together.peers:
        together.passing.leave(peer)
    for _ in range(20):
        together.passing.leave(first)
        together.supply()
    for peer in others:
        together.read(peer)
    assert not together.got_all(*others)
    scene.tell(HostLeft(together.hosts[0][1]))
    for peer in others:
        together.read(peer)
    assert together.got_all(*others)


def test_a_slower_client_receives_parts_that_were_requested_when_the_host_had_all(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Together(scene, 1, monkeypatch)
    together.passing.fetch(scene.client)
    together.supply()
    together.passing.leave(scene.client)
    for _ in range(20):
        together.passing.leave(together.peers[0])
        together.supply()
    together.passing.leave(scene.client)
    asked = scene.host.take(RequestPart)
    together.read(together.peers[0])
    assert asked
    assert together.got_all(together.peers[0])
    scene.tell(*(PartCame(scene.node_ref, part(LARGE, each.location, each.offset)) for each in asked))
    together.read(scene.client)
    assert together.got_all(scene.client)


@pytest.mark.parametrize("end", ["deleted", "gone", "other"])
def test_a_value_removed_during_its_transfer_ends_the_transfer_with_an_answer(scene: Scene, end: str) -> None:
    passing = Passing(scene)
    passing.fetch(scene.client)
    passing.supply()
    passing.leave(scene.client)
    if end == "deleted":
        scene.tell(DeleteObject(ONE, ANN))
    elif end == "gone":
        scene.tell(HostLeft(scene.node_ref, "why"))
    else:
        scene.tell(StoreObject(ONE, ANN, "", [b"again"], held=True))
    left = passing.leave(scene.client)
    assert Chunk(1, b"", ()) in left, "the rest of it is not sent"
    [answer] = [item for item in left if type(item) is ObjectResponse]
    expected = {"deleted": (NOT_FOUND, "", []), "gone": (LOST, "why", []), "other": (FOUND, "", [b"again"])}[end]
    assert (answer.found, answer.reason, [bytes(frame) for frame in answer.frames]) == expected


def test_parts_of_a_replaced_value_are_not_taken_for_the_new_value(scene: Scene) -> None:
    passing = Passing(scene)
    passing.fetch(scene.client)
    scene.host.take(RequestPart)
    newer = located(scene)
    scene.tell(
        StoreObject(ONE, ANN, "", newer, held=True), PartCame(scene.node_ref, part(LARGE, passing.frames.location))
    )
    assert passing.leave(scene.client) == []
    assert scene.host.take(RequestPart) == [RequestPart(ONE, newer.location, 0)]
    scene.tell(PartCame(scene.node_ref, part([b"new"], newer.location)))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, FOUND, [b"new"])]


@pytest.mark.parametrize(
    "fault",
    [
        {"sizes": b""},
        {"sizes": b"1234567"},
        {"sizes": struct.pack("<2Q", 2**63, 2**63)},
        {"sizes": bytes(8)},
        {"frames": (b"short",)},
        {"frames": ()},
        {"reason": "why", "sizes": b"", "frames": ()},
    ],
)
def test_a_malformed_part_makes_its_value_lost(scene: Scene, fault: dict[str, Any]) -> None:
    passing = Passing(scene)
    passing.fetch(scene.client)
    scene.tell(PartCame(scene.node_ref, replace(part(LARGE, passing.frames.location), **fault)))
    [answer] = scene.outbox.sent_to(scene.client)
    assert (answer.found, answer.reason) == (LOST, fault.get("reason") or "its host has sent an invalid part of it")


def test_parts_are_requested_again_from_an_agent_that_starts_over(scene: Scene) -> None:
    passing = Passing(scene)
    passing.fetch(scene.client)
    passing.supply()
    passing.leave(scene.client)
    lost = scene.host.take(RequestPart)
    scene.tell(HostLeft(scene.node_ref, reason=""))
    assert scene.host.take(RequestPart) == lost != []
    scene.bench.tell(scene.store, *(PartCame(scene.node_ref, part(LARGE, each.location, each.offset)) for each in lost))
    while passing.leave(scene.client) or passing.supply():
        pass
    assert passing.got[b"client"] == b"".join(LARGE)


def test_a_peer_that_requests_a_value_as_a_whole_receives_it_in_one_answer(scene: Scene) -> None:
    passing = Passing(scene)
    passing.fetch(scene.client)
    passing.supply()
    scene.tell(FetchObject(ONE, scene.node, None, by_value=True, whole=True))
    assert scene.host.take(SupplyObject) == [SupplyObject(ONE)]
    scene.tell(ObjectCame(ONE, scene.node_ref, found=True, frames=LARGE, reason="", stays=False))
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, FOUND, LARGE)]


def test_only_the_agent_that_keeps_a_value_can_supply_it(scene: Scene) -> None:
    keep_located(scene)
    _, other = scene.bench.recorder()
    scene.tell(FetchObject(ONE, scene.client, None, by_value=True))
    scene.tell(ObjectCame(ONE, other, found=True, frames=[b"forged"], reason="", stays=True))
    scene.tell(ObjectCame(ONE, other, found=False, frames=(), reason="forged", stays=True))
    assert scene.outbox.sent_to(scene.client) == []
    assert scene.table.objects[ONE].frames == ()


def test_an_agent_that_keeps_a_value_is_requested_again_when_it_starts_over(scene: Scene) -> None:
    keep_located(scene)
    scene.tell(FetchObject(ONE, scene.client, None, by_value=True), HostLeft(scene.node_ref, reason=""))
    assert len(scene.host.take(RequestPart)) == 2


def test_values_that_a_leaving_agent_sends_stay_in_the_scheduler(scene: Scene) -> None:
    keep_located(scene)
    scene.tell(ObjectCame(ONE, scene.node_ref, found=True, frames=[b"bytes"], reason="", stays=True))
    scene.tell(HostLeft(scene.node_ref), FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, FOUND, [b"bytes"])]


@pytest.mark.parametrize("has_answered", [True, False])
def test_a_result_lost_with_its_agent_is_announced_to_all_that_need_it(scene: Scene, has_answered: bool) -> None:
    _, session = keep_located(scene)
    graph, graph_ref = scene.bench.recorder()
    scene.tell(UseObjects(ONE, graph_ref), FetchObject(ONE, scene.node, None, by_value=True))
    if has_answered:
        scene.tell(ObjectCame(ONE, scene.node_ref, found=False, frames=(), reason="why", stays=False))
    else:
        scene.tell(HostLeft(scene.node_ref, "why"))
    assert scene.outbox.sent_to(scene.node) == [ObjectResponse(ONE, LOST, (), reason="why")]
    assert session.take(ObjectLost) == [ObjectLost(ONE, "why")]
    assert graph.take(InputLost) == [InputLost(ONE, "why")]
    scene.tell(FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, LOST, (), reason="why")]
    scene.tell(ReleaseObjects(ONE, graph_ref))
    assert scene.is_empty()
    assert (scene.table.sessions, scene.table.located) == ({}, {})


def test_an_early_copy_of_a_lost_result_is_deleted_when_no_task_needs_the_result(scene: Scene) -> None:
    keep_located(scene)
    scene.tell(UseObjects(ONE), HostLeft(scene.node_ref, "why"), CopyKept(ONE, scene.node_ref, is_early=True))
    scene.host.take()
    scene.tell(ReleaseObjects(ONE))
    assert scene.host.take() == [DeleteCopy(ONE)]
    assert scene.is_empty()


def test_a_graph_that_uses_a_lost_object_is_notified_of_the_loss(scene: Scene) -> None:
    graph, graph_ref = scene.bench.recorder()
    scene.tell(UseObjects(ONE, graph_ref))
    assert len(graph.take(InputLost)) == 1


def test_a_request_for_a_recently_lost_result_is_answered_as_lost(scene: Scene) -> None:
    """Otherwise, the client would take the result for deleted, and not have it computed again."""
    keep_located(scene)
    scene.tell(HostLeft(scene.node_ref, "why"), FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, LOST, (), reason="why")]
    assert scene.is_empty()
    scene.tell(StoreObject(ONE, ANN, "", [b"again"], held=True), DeleteObject(ONE, ANN))
    scene.tell(FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, 0, ())]


def test_the_number_of_remembered_losses_is_limited(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects_module, "LOST_MOST", 0)
    keep_located(scene)
    scene.tell(HostLeft(scene.node_ref, "why"))
    assert scene.table.recently_lost == {}


def test_a_result_that_was_lost_in_transit_is_announced_as_lost(scene: Scene) -> None:
    frames = located(scene)
    frames.lost = "why"
    session, session_ref = scene.bench.recorder()
    scene.tell(StoreObject(ONE, ANN, "", frames, held=True, source=session_ref))
    assert session.take(ObjectLost) == [ObjectLost(ONE, "why")]
    assert scene.is_empty()


def test_a_lost_result_that_was_computed_again_is_found(scene: Scene) -> None:
    keep_located(scene)
    scene.tell(UseObjects(ONE), HostLeft(scene.node_ref, "why"))
    scene.tell(StoreObject(ONE, ANN, "", [b"again"], held=True), FetchObject(ONE, scene.client, None))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, FOUND, [b"again"])]


def test_a_result_survives_its_agent_if_another_host_has_a_copy(scene: Scene) -> None:
    _, session = keep_located(scene)
    other, other_ref = scene.bench.recorder()
    scene.tell(FetchObject(ONE, scene.node, other_ref), HostLeft(scene.node_ref, "why"))
    scene.outbox.sent_to(scene.node)
    scene.tell(FetchObject(ONE, scene.client, None))
    assert other.take(RequestPart) == [RequestPart(ONE, b"", 0)]
    scene.tell(PartCame(other_ref, part([b"bytes"])))
    assert scene.outbox.sent_to(scene.client) == [ObjectResponse(ONE, FOUND, [b"bytes"])]
    scene.tell(HostLeft(other_ref, "the other too"))
    assert session.take(ObjectLost) == [ObjectLost(ONE, "the other too")]


def test_a_result_whose_host_has_computed_it_again_is_lost_with_that_host(scene: Scene) -> None:
    _, session = keep_located(scene)
    _, other_ref = scene.bench.recorder()
    scene.tell(FetchObject(ONE, scene.node, other_ref), HostLeft(scene.node_ref, "why"))
    frames = LocatedFrames(located(scene).location, other_ref)
    scene.tell(StoreObject(ONE, ANN, "", frames, held=True))
    assert scene.table.objects[ONE].lease is frames  # while the lease exists, its agent keeps the value
    scene.tell(HostLeft(other_ref, "the other too"))
    assert session.take(ObjectLost) == [ObjectLost(ONE, "the other too")]


def test_a_restarted_store_reports_objects_of_lost_agents_as_lost(scene: Scene) -> None:
    _, session = keep_located(scene)
    scene.bench.dispatcher.end(scene.node_ref)
    scene.store = scene.bench.dispatcher.spawn(ObjectStore(scene.table, scene.outbox, scene.events, RETENTION_SECONDS))
    scene.tell(FetchObject(ONE, scene.client, None, by_value=True))
    assert session.take(ObjectLost) == [ObjectLost(ONE, "its host is gone")]
    assert scene.is_empty()
