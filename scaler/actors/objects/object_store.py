"""ObjectStore: values that are too large for a message or used more than once: functions, large arguments and results.

Written to by client sessions (store, delete, fetch, the client left), graphs (store, use, release), tasks (use,
release) and agent sessions (fetch, copies of their agent, the agent left). Requested objects go to the outbox; agent
sessions are told which copies to delete.

An object is kept while a client holds it or a task uses it. Then its bytes are dropped here at once and deleted on the
hosts with a copy. Only copies of functions stay there for the retention time, because a function that is sent again has
the same id. (docs/howto/objects.md is the user's view.)

For a large object of a client on this host, the store may have only the location. Hosts that can open it take the
object themselves; for others, the client's session is asked for the bytes.

Who knows an id may read its object. Nobody but its owners changes it: what another client stores with the same id is
kept apart, for itself alone. A function is shared by all that store it, since its id is checked before (the session).

The table outlives the actor: the supervisor holds it. Must never: read a frame.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler.actors.insight.events import Events, ObjectFilled, ObjectGone, ObjectStored
from scaler.actors.messages.objects import (
    CopyKept,
    CountArguments,
    DeleteCopy,
    DeleteObject,
    FetchObject,
    HostLeft,
    OwnerLeft,
    ReleaseObjects,
    RetentionEnded,
    StoreObject,
    SupplyObject,
    UseObjects,
)
from scaler.actors.messages.peers import ReportStatistics
from scaler.actors.objects.copies import Copies, Retained, discard
from scaler.actors.peers.outbox import Outbox
from scaler.actors.peers.peer import Peer
from scaler.actors.slices import NextSlice, Slices
from scaler.ids import ClientId, ObjectId, split_ids
from scaler.kit import Actor, ActorRef, handles
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import size_at
from scaler.wire.messages.common import ObjectResponse
from scaler.wire.session.lost_frames import LostFrames


class StoredObject:
    """One object and who needs it."""

    __slots__ = (
        "frames", "holders", "is_function", "location", "name", "others", "owners", "source", "supplier", "waiting",
    )  # fmt: skip

    def __init__(self, name: str, frames: Frames, is_function: bool) -> None:
        self.name = name
        self.frames = frames
        self.is_function = is_function
        self.owners: set[ClientId] = set()
        """clients that sent it and have neither deleted it nor left: it is dropped with the last, unless a task uses it
        """
        self.holders: set[ClientId] = set()
        """those of them that hold it; without any, it is dropped with the last task that uses it"""
        self.location = b""
        """the location of the bytes at a client, while they are not here"""
        self.source: ActorRef | None = None
        """the session of that client"""
        self.supplier: ClientId | None = None
        """that client, which alone may send them"""
        self.others: dict[ClientId, StoreObject] = {}
        """what other clients have stored with the same id, each for itself"""
        self.waiting: dict[Peer, None] = {}
        """those that wait for the bytes, an ordered set: who is back on a new connection asks again"""

    @property
    def size_bytes(self) -> int:
        """Its bytes, those here and those that its client shares."""
        return size_of(self.frames) + self.shared_bytes

    @property
    def shared_bytes(self) -> int:
        """Those that its client shares, as that says."""
        return size_at(self.location) if self.location else 0


class ObjectTable:
    """All objects, by id and by owner, how many tasks use them, and who has copies."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, StoredObject] = {}
        self.owned: dict[ClientId, set[ObjectId]] = {}
        self.leaving: dict[ClientId, None] = {}
        """owners that have left, and whose objects are being disowned: an ordered set"""
        self.users: dict[ObjectId, int] = {}
        """apart from the objects: a task may name one that comes after it, or never"""
        self.copies = Copies()
        self.retained = Retained()
        self.functions: dict[ObjectId, StoredObject] = {}
        """those of the objects that are functions"""
        self.size_bytes = 0
        """of all objects together, and of the arguments that travel with open tasks"""
        self.shared_bytes = 0
        """those of them that are in memory that clients share"""

    def count(self, stored: StoredObject, sign: int) -> None:
        """Add the bytes of an object, or take them off."""
        self.size_bytes += sign * stored.size_bytes
        self.shared_bytes += sign * stored.shared_bytes

    def statistics(self) -> dict[str, int]:
        """Return counts: objects, bytes, owners, functions that only hosts have."""
        return {
            "objects": len(self.objects),
            "object_bytes": self.size_bytes,
            "object_owners": len(self.owned),
            "retained_objects": len(self.retained),
        }


class ObjectStore(Actor):
    """The one object store of the scheduler.

    Args:
        retention_seconds: how long hosts keep copies of unneeded functions.
    """

    def __init__(self, table: ObjectTable, outbox: Outbox, events: Events, retention_seconds: float) -> None:
        self._table = table
        self._objects = table.objects
        self._copies = table.copies
        self._retained = table.retained
        self._outbox = outbox
        self._events = events
        self._retention_seconds = retention_seconds
        self._is_waiting = False
        self._slices = Slices(self)

    def on_start(self) -> None:
        self._slices.add(self._disown_one, self._those_who_left())
        self._wait_for_first()

    @handles(StoreObject)
    def _store(self, store: StoreObject) -> None:
        while store.owner in self._table.leaving:  # it is back already
            self._slices.go_on()
        stored = self._objects.get(store.object_id)
        while stored is not None and store.is_function > stored.is_function:
            self._forget(store.object_id, stored)  # the id is the hash of the function, so it is nothing else
            stored = self._objects.get(store.object_id)
        if stored is None:
            stored = self._add(store)
        elif (stored.location or type(stored.frames) is LostFrames) and stored.supplier == store.owner:
            self._store_again(stored, store)
        owner = store.owner
        if owner is None:
            return  # it goes with those that use it
        if self._is_of_others(stored, store):
            stored.others[owner] = store
            self._table.owned.setdefault(owner, set()).add(store.object_id)
            return
        stored.owners.add(owner)
        if store.held:
            stored.holders.add(owner)
        self._table.owned.setdefault(owner, set()).add(store.object_id)

    def _add(self, store: StoreObject) -> StoredObject:
        stored = self._objects[store.object_id] = StoredObject(store.name, store.frames, store.is_function)
        stored.location, stored.source, stored.supplier = store.location, store.source, store.owner
        self._table.count(stored, 1)
        if store.is_function:
            self._table.functions[store.object_id] = stored
        self._retained.remove(store.object_id)  # the copies are of use again
        if store.owner is None:  # a result: copies that are older may be of another one
            self._delete_copies(store.object_id)
        if self._events.of_objects is not None:
            told = ObjectStored(store.object_id, store.owner, store.name, stored.size_bytes)
            self._events.of_objects.send(told)
        return stored

    def _is_of_others(self, stored: StoredObject, store: StoreObject) -> bool:
        """Return whether an id belongs to other clients. Only functions are shared: their ids are checked."""
        is_shared = stored.is_function and store.is_function
        return not is_shared and bool(stored.owners) and store.owner not in stored.owners

    def _store_again(self, stored: StoredObject, store: StoreObject) -> None:
        """The requested bytes arrive, or the client is back after a cut and may not have received the request."""
        self._table.count(stored, -1)
        stored.location, stored.frames = store.location, store.frames
        self._table.count(stored, 1)
        if store.location:
            stored.source = store.source
            if stored.waiting:
                self._ask_for(store.object_id, stored)
            return
        if self._events.of_objects is not None:
            self._events.of_objects.send(ObjectFilled(store.object_id, stored.size_bytes))
        waiting, stored.waiting = stored.waiting, {}
        for peer in waiting:
            self._respond(peer, store.object_id, stored.frames, b"")

    def _ask_for(self, object_id: ObjectId, stored: StoredObject) -> None:
        if stored.source is not None:
            stored.source.send(SupplyObject(object_id))

    @handles(DeleteObject)
    def _delete(self, delete: DeleteObject) -> None:
        if delete.object_id in self._table.owned.get(delete.owner, ()):
            discard(self._table.owned, delete.owner, delete.object_id)
            self._disown(delete.object_id, delete.owner)

    @handles(OwnerLeft)
    def _owner_left(self, left: OwnerLeft) -> None:
        if left.owner in self._table.owned:
            self._table.leaving[left.owner] = None
            self._slices.add(self._disown_one, self._those_who_left())

    def _those_who_left(self) -> Iterator[ClientId]:
        """Go through the owners that have left, each as often as it has objects."""
        leaving, owned = self._table.leaving, self._table.owned
        while leaving:
            owner = next(iter(leaving))
            while owner in owned:
                yield owner
            leaving.pop(owner, None)

    def _disown_one(self, owner: ClientId) -> None:
        owned = self._table.owned[owner]
        object_id = owned.pop()
        if not owned:
            del self._table.owned[owner]
        self._disown(object_id, owner)

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        self._slices.go_on()

    def _disown(self, object_id: ObjectId, owner: ClientId) -> None:
        stored = self._objects[object_id]
        if stored.others.pop(owner, None) is not None:
            return
        stored.owners.discard(owner)
        stored.holders.discard(owner)
        if not stored.owners and object_id not in self._table.users:
            self._forget(object_id, stored)

    @handles(UseObjects)
    def _use(self, use: UseObjects) -> None:
        users = self._table.users
        for packed in split_ids(use.object_ids):
            object_id = ObjectId(packed)
            users[object_id] = users.get(object_id, 0) + 1

    @handles(CountArguments)
    def _count_arguments(self, count: CountArguments) -> None:
        self._table.size_bytes += count.size_bytes

    @handles(ReleaseObjects)
    def _release(self, release: ReleaseObjects) -> None:
        users = self._table.users
        for packed in split_ids(release.object_ids):
            object_id = ObjectId(packed)
            left = users.get(object_id, 0) - 1
            if left > 0:
                users[object_id] = left
                continue
            users.pop(object_id, None)
            stored = self._objects.get(object_id)
            if stored is not None and not stored.holders:
                self._forget(object_id, stored)

    @handles(FetchObject)
    def _fetch(self, fetch: FetchObject) -> None:
        stored = self._objects.get(fetch.object_id)
        if stored is None:
            self._outbox.put(fetch.peer, ObjectResponse(fetch.object_id, 0, ()))
        else:
            if fetch.host is not None:
                self._copies.add(fetch.object_id, fetch.host)
            own = stored.others.get(ClientId(fetch.peer.key[1])) if stored.others else None
            if own is not None:
                self._respond(fetch.peer, fetch.object_id, own.frames, own.location)
            elif stored.location and fetch.by_value:
                stored.waiting[fetch.peer] = None
                if len(stored.waiting) == 1:
                    self._ask_for(fetch.object_id, stored)
            else:
                self._respond(fetch.peer, fetch.object_id, stored.frames, stored.location)

    def _respond(self, peer: Peer, object_id: ObjectId, frames: Frames, location: bytes) -> None:
        if type(frames) is LostFrames:
            response = ObjectResponse(object_id, 0, (), reason=frames.reason)
        else:
            response = ObjectResponse(object_id, 1, frames, location)
        self._outbox.put(peer, response)

    def _forget(self, object_id: ObjectId, stored: StoredObject) -> None:
        del self._objects[object_id]
        self._table.count(stored, -1)
        if stored.is_function:
            self._table.functions.pop(object_id, None)
        if self._events.of_objects is not None:
            self._events.of_objects.send(ObjectGone(object_id))
        for owner in stored.owners:
            discard(self._table.owned, owner, object_id)
        for peer in stored.waiting:
            self._outbox.put(peer, ObjectResponse(object_id, 0, ()))
        if stored.is_function and self._retention_seconds and object_id in self._copies.hosts:
            self._retain(object_id, size_of(stored.frames))
        else:
            self._delete_copies(object_id)
        for owner, store in stored.others.items():
            discard(self._table.owned, owner, object_id)
            if owner not in self._table.leaving:
                self._store(store)

    # Copies

    @handles(CopyKept)
    def _copy_kept(self, kept: CopyKept) -> None:
        is_known = kept.object_id in self._objects or kept.object_id in self._retained
        if is_known or (kept.is_early and self._retention_seconds):
            self._copies.add(kept.object_id, kept.host)
            if not is_known:
                self._retain(kept.object_id, 0)
        else:
            kept.host.send(DeleteCopy(kept.object_id))

    @handles(HostLeft)
    def _host_left(self, left: HostLeft) -> None:
        for object_id in self._copies.remove_host(left.host):
            self._retained.remove(object_id)

    def _retain(self, object_id: ObjectId, size_bytes: int) -> None:
        self._retained.add(object_id, self.now() + self._retention_seconds, size_bytes)
        for surplus in self._retained.take_surplus():
            self._delete_copies(surplus)
        self._wait_for_first()

    @handles(RetentionEnded)
    def _retention_ended(self, _ended: RetentionEnded) -> None:
        self._is_waiting = False
        for object_id in self._retained.take_ended(self.now()):
            self._delete_copies(object_id)
        self._wait_for_first()

    def _wait_for_first(self) -> None:
        first = self._retained.first_end()
        if first is not None and not self._is_waiting:
            self._is_waiting = True
            self.schedule(max(0.0, first - self.now()), RetentionEnded())

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add("object store", "", self._table.statistics())

    def _delete_copies(self, object_id: ObjectId) -> None:
        for host in self._copies.remove_object(object_id):
            host.send(DeleteCopy(object_id))
