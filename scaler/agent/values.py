"""Values: the large results of a node's tasks, which stay in its store until the scheduler says that nobody needs them.

The ledger puts them in and says their locations; the object cache gives them out and drops them: this is the one place
where both meet. Large ones stay in the block in which they came. What did not come in a block, or takes one file too
many, is not taken: it is sent.

Must never: read a value.
"""

from __future__ import annotations

import resource
import weakref
from collections.abc import Callable

from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId
from scaler.pickling.serialization import Frames
from scaler.shared_memory import SHARE_LEAST_BYTES, Memory, block_of, can_share
from scaler.store.store import Store


class Values:
    """Which objects of a store are results of this node, and where they were said to be."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._said: dict[ObjectId, bytes] = {}
        self._memories: weakref.WeakSet[Memory] = weakref.WeakSet()
        self.locate: Callable[[ObjectId], bytes] = store.location
        """how others find a value"""

    def take(self, object_id: ObjectId, frames: Frames) -> bytes:
        """Keep frames, in the place of what had this id. Return their location; nothing: they cannot be kept."""
        block = block_of(frames) if can_share() else None
        if block is None:
            return b""
        is_small = sum(block.sizes) < SHARE_LEAST_BYTES
        if not is_small and len(self._memories) >= _memories_most():
            return b""
        self._store.drop(object_id)
        self._said.pop(object_id, None)
        try:
            if is_small:
                self._store.take(object_id, frames)
            else:
                self._store.take_block(object_id, block)
                self._memories.add(block.memory)
            location = self.locate(object_id)
        except (OSError, MemoryError, ObjectTooLargeError):
            location = b""
        if location:
            self._said[object_id] = location
        else:
            self._store.drop(object_id)
        return location

    def location(self, object_id: ObjectId) -> bytes:
        """Return where a value was said to be; nothing: it is not here."""
        return self._said.get(object_id, b"")

    def drop(self, object_id: ObjectId, location: bytes) -> bool:
        """Forget a value, if it is the one that was said to be there: not a newer one. Return whether it was here. Who
        has mapped it goes on.
        """
        if self._said.get(object_id) != location:
            return False
        del self._said[object_id]
        return self._store.drop(object_id)

    def ids(self) -> list[ObjectId]:
        """Return the ids of all values."""
        return list(self._said)


def _memories_most() -> int:
    """Return how many memories may be open: each takes one of the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft // 4
