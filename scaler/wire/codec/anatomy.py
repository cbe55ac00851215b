"""Anatomy: the size of an item, and the ids that it makes and names, found with the annotations of its class.

Used by the pipe. An item *makes* the id in its first id column, which is the id of a task or an object, and the id of
its graph. An item *names* all its ids, including those in `object_ids` and `inputs`. Payloads are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from operator import attrgetter
from typing import Any

from scaler.ids import ID_BYTES, NO_ID
from scaler.pickling.serialization import size_of
from scaler.wire.codec.columns import column_kinds

ITEM_BYTES = 64
"""The approximate size of an item without its content, in bytes."""
_ID_ROWS = ("object_ids", "inputs")
_GRAPH_ID = "graph_id"


class Anatomy:
    """Finds the size and the ids of items of one message class."""

    def __init__(self, item: type) -> None:
        kinds = {name: kind for name, (kind, _) in column_kinds(item).items()}
        self._carried = [attrgetter(name) for name, kind in kinds.items() if kind in ("bytes", "text")]
        self._frames = next((attrgetter(name) for name, kind in kinds.items() if kind == "frames"), None)
        self._ids: list[Callable[[Any], bytes]] = [attrgetter(name) for name, kind in kinds.items() if kind == "id"]
        self._id_rows = [attrgetter(name) for name in _ID_ROWS if name in kinds]
        self._made = self._ids[:1] + [attrgetter(name) for name in kinds if name == _GRAPH_ID]

    def size(self, item: Any) -> int:
        """Return approximately how many bytes the item takes in a message."""
        size = ITEM_BYTES
        for get in self._carried:
            size += len(get(item))
        return size + size_of(self._frames(item)) if self._frames else size

    def made_by(self, item: Any) -> list[bytes]:
        """Return the id of the task or object that the item creates, and of the graph to which the item belongs."""
        return [made for get in self._made if (made := get(item)) != NO_ID]

    def named_by(self, item: Any) -> Iterator[bytes]:
        """Return all ids in the item."""
        for get in self._ids:
            yield get(item)
        for get in self._id_rows:
            ids = get(item)
            for start in range(0, len(ids), ID_BYTES):
                yield ids[start : start + ID_BYTES]


anatomy: Callable[[type], Anatomy] = cache(Anatomy)
"""returns the `Anatomy` of a message class, made at the first call"""
