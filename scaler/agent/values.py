"""NodeValues: the large results of a node's tasks, kept in its store until the scheduler deletes them.

The ledger adds results and sends their locations, also to each new scheduler. The object cache serves and drops
results. No value is read here. A large value stays in the block in which it arrived. A value without a block is sent to
the scheduler instead, and so is a block beyond the limit of open files.
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
    """Keeps the results of this node in a store, with their announced locations."""

    def __init__(self, store: ValueStore) -> None:
        self._store = store
        self._results: dict[ObjectId, RunResult] = {}
        """by object id: the result as it was sent, with the location of its value"""
        self._accounts: dict[ObjectId, int] = {}
        self.room = PausedWorkers(self._are_used_by, self._results.__contains__)
        self._memories: weakref.WeakSet[Memory] = weakref.WeakSet()
        self.locate: Callable[[ObjectId], bytes] = store.location
        """returns the location by which other processes open a value"""
        self.gauges: Callable[[], StoreGauges] = store.gauges
        """returns figures about the contents of the store, for viewers"""

    def take(self, result: RunResult, account: int) -> RunResult:
        """Store the frames of a result. Return the result with a location instead of the frames.

        Return the result unchanged if its frames cannot be stored, or if its id names a copy or another account's
        result.

        Raises:
            ObjectTooLargeError: if the store can never have room for the frames.
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
        located = self._results[object_id] = replace(result, frames=(), location=location)
        self._accounts[object_id] = account
        return located

    def _drop(self, object_id: ObjectId) -> bool:
        self._results.pop(object_id, None)
        self._accounts.pop(object_id, None)
        return self._store.drop(object_id)

    def owner_of(self, object_id: bytes) -> int:
        """Return the owner tag of the task that made a value."""
        return owner_of(self._accounts[ObjectId(object_id)])

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._results

    def _are_used_by(self, task: RunTask) -> bool:
        """Return whether a task needs stored values. Some of these values may be freed when the task ends."""
        return any(ObjectId(packed) in self._results for packed in split_ids(task.object_ids))

    def is_result_of(self, object_id: ObjectId, attempt: int) -> bool:
        """Return whether the stored value of this id was made by exactly this attempt."""
        return object_id in self._results and self._results[object_id].attempt == attempt

    def is_at(self, object_id: ObjectId, location: bytes) -> bool:
        """Return whether the stored value of this id has this location. A newer value has another location."""
        return object_id in self._results and self._results[object_id].location == location

    def drop(self, object_id: ObjectId, location: bytes) -> bool:
        """Remove the value with this location, and return whether it was stored. Processes keep their mappings."""
        return self.is_at(object_id, location) and self._drop(object_id)

    def ids(self) -> list[ObjectId]:
        """Return the ids of all stored values."""
        return list(self._results)

    def results(self) -> list[RunResult]:
        """Return the results with stored values, as they were sent."""
        return list(self._results.values())


def _memories_most() -> int:
    """Return how many blocks may be open: each block uses one of the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft // 4
