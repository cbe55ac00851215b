"""Objects: the topic `objects`: the largest objects that are stored.

Used by the monitor. Must never: go through very many objects often.
"""

from __future__ import annotations

from heapq import nlargest

from scaler.actors.objects.object_store import ObjectTable, StoredObject
from scaler.ids import ObjectId, public_id
from scaler.wire.messages.monitor import StateObject

SHOWN_MOST = 100

OBJECTS_PER_SECOND = 20_000
"""Of more objects, the list is made less often."""

_UINT32_MOST, _UINT64_MOST = 2**32 - 1, 2**64 - 1


class Objects:
    """The largest objects."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        self._items: list[StateObject] = []
        self._next_at = 0.0

    def items(self, now: float) -> tuple[list[StateObject], int]:
        """Return what the topic shows, and how many objects there are."""
        objects = self._table.objects
        if now >= self._next_at:
            self._next_at = now + len(objects) / OBJECTS_PER_SECOND
            largest = nlargest(SHOWN_MOST, objects.items(), key=lambda each: each[1].size_bytes)
            self._items = [self._item(*each) for each in largest]
        return self._items, len(objects)

    def _item(self, object_id: ObjectId, stored: StoredObject) -> StateObject:
        owner = next(iter(stored.owners), None)
        return StateObject(
            public_id(object_id),
            stored.name,
            b"" if owner is None else public_id(owner),
            min(_UINT64_MOST, stored.size_bytes),
            len(self._table.copies.hosts.get(object_id, ())),
            min(_UINT32_MOST, self._table.users.get(object_id, 0)),
            int(bool(stored.location)),
        )
