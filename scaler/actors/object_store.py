"""ObjectStore: what is too large for a message, or needed more than once: functions, large arguments, large results.

Written to by client sessions (store, delete, fetch, the client left), tasks (use, release) and agent sessions (fetch);
answers go to the outbox. An object is kept while a client holds it or a task uses it. Nodes that fetched a copy are
told to forget it.

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

    __slots__ = ("fetched_by", "frames", "holders", "name", "owners", "size_bytes")

    def __init__(self, name: str, frames: Frames) -> None:
        self.name = name
        self.frames = frames
        self.size_bytes = size_of(frames)
        self.owners: set[ClientId] = set()
        """clients that sent it and have neither deleted it nor left: it goes with the last, unless a task uses it"""
        self.holders: set[ClientId] = set()
        """those of them that hold it; if nobody does, it goes with the last task that uses it"""
        self.fetched_by: set[Connection] = set()
        """nodes that have a copy"""


class ObjectTable:
    """All objects, by id and by owner, and how many tasks use them."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, StoredObject] = {}
        self.owned: dict[ClientId, set[ObjectId]] = {}
        self.users: dict[ObjectId, int] = {}
        """apart from the objects: a task may name one that comes after it, or never"""

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
        owned = self._table.owned.get(delete.owner)
        if owned is not None and delete.object_id in owned:
            owned.remove(delete.object_id)
            if not owned:
                del self._table.owned[delete.owner]
            self._disown(delete.object_id, delete.owner)

    @handles(OwnerLeft)
    def _owner_left(self, left: OwnerLeft) -> None:
        for object_id in self._table.owned.pop(left.owner, ()):
            self._disown(object_id, left.owner)

    def _disown(self, object_id: ObjectId, owner: ClientId) -> None:
        stored = self._objects[object_id]
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
            self._outbox.put(fetch.connection, ObjectResponse(fetch.object_id, 0, ()))
        else:
            if fetch.caches:
                stored.fetched_by.add(fetch.connection)
            self._outbox.put(fetch.connection, ObjectResponse(fetch.object_id, 1, stored.frames))

    def _forget(self, object_id: ObjectId, stored: StoredObject) -> None:
        del self._objects[object_id]
        for owner in stored.owners:
            owned = self._table.owned[owner]
            owned.discard(object_id)
            if not owned:
                del self._table.owned[owner]
        for connection in stored.fetched_by:
            self._outbox.put(connection, ObjectInstruction(InstructionKind.DELETE, object_id, "", ()))
