"""NodeValues: the large results of a node's tasks, which stay in its store until the scheduler says that nobody needs them.

The ledger puts them in and says their locations, again to each new scheduler; the object cache gives them out and drops
them: this is the one place where both meet. Large ones stay in the block in which they came. What did not come in a
block, or takes one file too many, is not taken: it is sent.

Must never: read a value.
"""

from __future__ import annotations

import resource
import weakref
from collections.abc import Callable
from dataclasses import replace

from scaler.agent.paused_workers import PausedWorkers
from scaler.ids import ObjectId, split_ids
from scaler.shared_memory import SHARE_LEAST_BYTES, Memory, block_of, can_share
from scaler.store.store import StoreGauges, ValueStore
from scaler.wire.messages.accounts import owner_of
from scaler.wire.messages.worker import RunResult, RunTask


class NodeValues:
    """Which objects of a store are results of this node, and where they were said to be."""

    def __init__(self, store: ValueStore) -> None:
        self._store = store
        self._said: dict[ObjectId, RunResult] = {}
        """the results as they were said, with the locations of their values"""
        self._accounts: dict[ObjectId, int] = {}
        """those of the tasks that have made them"""
        self.room = PausedWorkers(self._are_used_by, self._said.__contains__)
        self._memories: weakref.WeakSet[Memory] = weakref.WeakSet()
        self.locate: Callable[[ObjectId], bytes] = store.location
        """how others find a value"""
        self.gauges: Callable[[], StoreGauges] = store.gauges
        """what the store holds, for viewers"""

    def take(self, result: RunResult, account: int) -> RunResult:
        """Keep the frames of a result, in the place of an earlier one of its task. Return the result with their
        location; as it was, if they cannot be kept, or if this id is that of a copy or of a result of another account,
        which tasks would take for it.

        Args:
            account: that of its task.

        Raises:
            ObjectTooLargeError: if there can never be room for them here.
        """
        object_id, frames = ObjectId(result.task_id), result.frames
        if object_id in self._store and self._accounts.get(object_id) != account:
            return result
        block = block_of(frames) if can_share() else None
        if block is None:
            return result
        is_small = sum(block.sizes) < SHARE_LEAST_BYTES
        if not is_small and len(self._memories) >= _memories_most():
            return result
        self._drop(object_id)
        try:
            if is_small:
                self._store.take(object_id, frames)
            else:
                self._store.take_block(object_id, block)
                self._memories.add(block.memory)
            location = self.locate(object_id)
        except (OSError, MemoryError):
            location = b""
        if not location:
            self._store.drop(object_id)
            return result
        said = self._said[object_id] = replace(result, frames=(), location=location)
        self._accounts[object_id] = account
        return said

    def _drop(self, object_id: ObjectId) -> bool:
        self._said.pop(object_id, None)
        self._accounts.pop(object_id, None)
        return self._store.drop(object_id)

    def owner_of(self, object_id: bytes) -> int:
        """Return the tag of the owner of the task whose value is here."""
        return owner_of(self._accounts[ObjectId(object_id)])

    def __len__(self) -> int:
        return len(self._said)

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._said

    def _are_used_by(self, task: RunTask) -> bool:
        """Return whether a task needs values that are here: with its end, some may go."""
        return any(ObjectId(packed) in self._said for packed in split_ids(task.object_ids))

    def is_result_of(self, object_id: ObjectId, attempt: int) -> bool:
        """Return whether just this attempt has made a value that is here."""
        return object_id in self._said and self._said[object_id].attempt == attempt

    def is_at(self, object_id: ObjectId, location: bytes) -> bool:
        """Return whether a value is the one that was said to be there, and not a newer one."""
        return object_id in self._said and self._said[object_id].location == location

    def drop(self, object_id: ObjectId, location: bytes) -> bool:
        """Forget a value, if it is the one that was said to be there: not a newer one. Return whether it was here. Who
        has mapped it goes on.
        """
        return self.is_at(object_id, location) and self._drop(object_id)

    def ids(self) -> list[ObjectId]:
        """Return the ids of all values."""
        return list(self._said)

    def results(self) -> list[RunResult]:
        """Return the results whose values are here, as they were said."""
        return list(self._said.values())


def _memories_most() -> int:
    """Return how many memories may be open: each takes one of the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft // 4
