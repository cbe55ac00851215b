"""ObjectStore: what is too large for a message, or needed more than once: functions, large arguments, large results.

Written to by client sessions (store, delete, fetch, the client left), tasks (use, release) and agent sessions (fetch); answers
go to the outbox. An object is kept while a client holds it or a task uses it. Nodes that fetched a copy are told to forget it.

The table outlives the actor: the supervisor holds it. Must never: look into a frame.
"""

from __future__ import annotations

from scaler.actors.kit import Actor, handles
from scaler.actors.messages import DeleteObject, FetchObject, OwnerLeft, ReleaseObjects, StoreObject, UseObjects
from scaler.actors.outbox import Outbox
from scaler.ids import ClientId, Connection, ObjectId, split_ids
from scaler.serialization import Frames, size_of
from scaler.wire.messages import InstructionKind, ObjectInstruction, ObjectResponse


class StoredObject:
    """One object and who needs it."""

    __slots__ = ("fetched_by", "frames", "holders", "name", "owners", "size_bytes", "users")

    def __init__(self, name: str, frames: Frames) -> None:
        self.name = name
        self.frames = frames
        self.size_bytes = size_of(frames)
        self.owners: set[ClientId] = set()
        """clients that sent it: it goes when they have gone, unless a task still uses it"""
        self.holders: set[ClientId] = set()
        """clients that hold it until they delete it"""
        self.users = 0
        """tasks that use it"""
        self.fetched_by: set[Connection] = set()
        """nodes that have a copy"""


class ObjectTable:
    """All objects, by id and by owner."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, StoredObject] = {}
        self.owned: dict[ClientId, set[ObjectId]] = {}

    def statistics(self) -> dict[str, int]:
        """Return counts: objects, bytes, owners."""
        return {
            "objects": len(self.objects),
            "object_bytes": sum(stored.size_bytes for stored in self.objects.values()),
            "object_owners": len(self.owned),
        }


class ObjectStore(Actor):
    """The one object store of the scheduler."""

    def __init__(self, table: ObjectTable, outbox: Outbox) -> None:
        self._table = table
        self._objects = table.objects
        self._outbox = outbox

    @handles(StoreObject)
    def _store(self, store: StoreObject) -> None:
        stored = self._objects.get(store.object_id)
        if stored is None:
            stored = self._objects[store.object_id] = StoredObject(store.name, store.frames)
        stored.owners.add(store.owner)
        if store.held:
            stored.holders.add(store.owner)
        self._table.owned.setdefault(store.owner, set()).add(store.object_id)

    @handles(DeleteObject)
    def _delete(self, delete: DeleteObject) -> None:
        stored = self._objects.get(delete.object_id)
        if stored is not None:
            stored.holders.discard(delete.owner)
            self._forget_if_unneeded(delete.object_id, stored)

    @handles(UseObjects)
    def _use(self, use: UseObjects) -> None:
        for object_id in split_ids(use.object_ids):
            stored = self._objects.get(ObjectId(object_id))
            if stored is not None:
                stored.users += 1

    @handles(ReleaseObjects)
    def _release(self, release: ReleaseObjects) -> None:
        for object_id in split_ids(release.object_ids):
            stored = self._objects.get(ObjectId(object_id))
            if stored is not None:
                stored.users -= 1
                self._forget_if_unneeded(ObjectId(object_id), stored)

    @handles(OwnerLeft)
    def _owner_left(self, left: OwnerLeft) -> None:
        for object_id in self._table.owned.pop(left.owner, ()):
            stored = self._objects.get(object_id)
            if stored is not None:
                stored.owners.discard(left.owner)
                stored.holders.discard(left.owner)
                self._forget_if_unneeded(object_id, stored)

    @handles(FetchObject)
    def _fetch(self, fetch: FetchObject) -> None:
        stored = self._objects.get(fetch.object_id)
        if stored is None:
            self._outbox.put(fetch.connection, ObjectResponse(fetch.object_id, 0, ()))
        else:
            stored.fetched_by.add(fetch.connection)
            self._outbox.put(fetch.connection, ObjectResponse(fetch.object_id, 1, stored.frames))

    def _forget_if_unneeded(self, object_id: ObjectId, stored: StoredObject) -> None:
        if stored.holders or stored.users > 0:
            return
        del self._objects[object_id]
        for owner in stored.owners:
            owned = self._table.owned.get(owner)
            if owned is not None:
                owned.discard(object_id)
                if not owned:
                    del self._table.owned[owner]
        for connection in stored.fetched_by:
            self._outbox.put(connection, ObjectInstruction(InstructionKind.DELETE, object_id, "", ()))
