"""ValueStore: the values that one agent keeps, by id: in shared memory (hot), or spilled to disk (cold).

    taken --> hot --over the budget, and no reader--> cold
               ^                                        |
               +----------------needed------------------+

Small values are bytes of the process and always hot. Other values are blocks of shared memory (hot) or files (cold).
The budget counts memory, not values, so a slab counts until its last value and its last reader are gone. Values are
spilled piece by piece, the least recently used first.

Dropped values are forgotten at once; their memory and files are freed piece by piece, and count until then. Reads of a
full store succeed and exceed the budget until readers are done.

Called in one thread, by the actor that owns the store. Only the disk can block a call.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import INLINE_FRAMES_BYTES, SHARE_LEAST_BYTES, Memory, SharedBlock, Slabs
from scaler.store.host_share import HostShare
from scaler.store.spill_folder import SpillFolder, ValueWrite

logger = logging.getLogger(__name__)

DISK_PAUSE_SECONDS = 5.0
"""The time for which the store writes nothing to the disk after a disk error."""
FREE_SECONDS = 0.005
"""The time for which one call frees memory and files of dropped values. Later calls free the rest."""
RAISE_LIMIT = "use less at a time, or raise the setting object_memory_bytes of the cluster"


class StoreGauges(NamedTuple):
    """The bytes and limits of a store.

    Attributes:
        hot: bytes of shared memory that count for the store.
        hot_most: the most bytes of shared memory for all stores of this user on this host.
        cold: bytes that the store has on disk.
        cold_most: the most bytes on disk for all stores of this user on this host; 0: the stores have no disk.
        spilled: bytes written to disk since the start of the store.
        read: bytes read back from disk since the start of the store.
    """

    hot: int = 0
    hot_most: int = 0
    cold: int = 0
    cold_most: int = 0
    spilled: int = 0
    read: int = 0


@dataclass(slots=True)
class _Cold:
    """The sizes and the checksum of a value on disk."""

    sizes: list[int]
    n_bytes: int
    checksum: int


@dataclass(slots=True)
class _Contents:
    object_ids: set[ObjectId] = field(default_factory=set)
    n_bytes: int = 0


class ValueStore:
    """Stores the values of one agent, and spills values to disk when memory runs short.

    Args:
        share: adds up what all stores of this user hold on this host; `hot_most` and `cold_most` limit these sums.
        folder: the folder for cold values; None: no value is spilled.
        now: returns the time in seconds.
    """

    def __init__(
        self,
        share: HostShare,
        hot_most: int,
        folder: SpillFolder | None = None,
        cold_most: int = 0,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._share, self._folder = share, folder
        self.hot_most, self.cold_most = hot_most, cold_most
        self._now = now
        self._slabs = Slabs()
        self._small: dict[ObjectId, list[bytes]] = {}
        self._hot: dict[ObjectId, SharedBlock] = {}
        self._cold: dict[ObjectId, _Cold] = {}
        self._memories: dict[Memory, _Contents] = {}
        """shared memory that counts for the store -> the values in it; the least recently used memory is first"""
        self._held: dict[weakref.ref[Memory], int] = {}
        """memory -> how many of its bytes this store or a reader uses"""
        self._held_bytes = 0
        self._given_back: deque[weakref.ref[Memory]] = deque()
        """freed memories that are still counted; each is added by the thread in which the memory's last reader ends"""
        self._readers: weakref.WeakValueDictionary[ObjectId, SharedBlock] = weakref.WeakValueDictionary()
        self._writing: tuple[ObjectId, ValueWrite] | None = None
        self._dropped: deque[Memory] = deque()
        """memory that holds no values and is to be freed"""
        self._disk_paused_until = float("-inf")
        self._spilled_bytes = self._read_bytes = 0

    # Contents

    def gauges(self) -> StoreGauges:
        """Return the bytes and limits of this store, for viewers."""
        cold_most = 0
        if self._folder is not None:
            with contextlib.suppress(OSError):
                on_disk = self.cold_bytes + self._share.others.cold
                cold_most = min(self.cold_most, on_disk + self._folder.free_bytes())
        own = self.hot_bytes, self.hot_most, self.cold_bytes, cold_most
        return StoreGauges(*own, self._spilled_bytes, self._read_bytes)

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._hot or object_id in self._small or object_id in self._cold

    def ids(self) -> list[ObjectId]:
        """Return the ids of all values."""
        return [*self._small, *self._hot, *self._cold]

    @property
    def hot_bytes(self) -> int:
        """The bytes of shared memory that count for this store."""
        while self._given_back:
            self._held_bytes -= self._held.pop(self._given_back.popleft())
        return self._held_bytes

    @property
    def cold_bytes(self) -> int:
        """The bytes that this store has on disk."""
        return 0 if self._folder is None else self._folder.n_bytes

    # Storing, finding, dropping

    def take(self, object_id: ObjectId, frames: Frames) -> None:
        """Store a copy of the frames of a value.

        Raises:
            ObjectTooLargeError: if the value can never fit into shared memory of this host.
            MemoryError: if this host has no memory for the value.
        """
        if size_of(frames) > INLINE_FRAMES_BYTES:
            self._check(object_id, size_of(frames))
            try:
                self._add(object_id, self._slabs.put(frames))
                return
            except OSError as error:  # fall back to a copy for each processor
                logger.warning("each processor copies an object, because there is no shared memory for it: %s", error)
        self._small[object_id] = [bytes(memoryview(frame)) for frame in frames]

    def take_block(self, object_id: ObjectId, block: SharedBlock) -> None:
        """Store a value whose memory belongs to an agent. Raises `ObjectTooLargeError` if the value can never fit."""
        self._check(object_id, block.n_bytes)
        self._add(object_id, block)

    def take_foreign(self, object_id: ObjectId, block: SharedBlock) -> None:
        """Add a value whose memory belongs to a client on this host. The memory does not count for this store."""
        self._hot[object_id] = block

    def frames(self, object_id: ObjectId) -> Frames:
        """Return a value's read-only frames. Small values are copied, to save descriptors. Errors as for `find`."""
        small, block = self.find(object_id)
        if block is None:
            return small
        if sum(block.sizes) < SHARE_LEAST_BYTES:
            return [bytes(frame) for frame in self._hot[object_id].view()]
        return block.map(remember=True)

    def location(self, object_id: ObjectId) -> bytes:
        """Return where other processes find a value; empty if not in shared memory. Errors are as for `find`."""
        _, block = self.find(object_id)
        return b"" if block is None else block.location()

    def find(self, object_id: ObjectId) -> tuple[Sequence[bytes], SharedBlock | None]:
        """Return the frames of a small value, or the block of a larger one. A block in use keeps the value hot.

        Raises:
            KeyError: if the value is not in this store.
            OSError: if the value is lost, since its file cannot be read or no memory is left.
        """
        if object_id in self._small:
            return self._small[object_id], None
        if object_id in self._cold:
            self._load(object_id)
        block = self._hot[object_id]
        if block.memory in self._memories:
            self._memories[block.memory] = self._memories.pop(block.memory)  # most recently used
        reader = self._readers.get(object_id)
        place = block.memory, block.offset
        if reader is None or (reader.memory, reader.offset) != place:  # of an earlier value with this id
            reader = self._readers[object_id] = SharedBlock(block.memory, block.sizes, block.offset)
        return (), reader

    def drop(self, object_id: ObjectId) -> bool:
        """Forget a value. Return whether it was in this store. `make_room` frees the value's memory or file later."""
        if object_id in self._cold:
            self._forget_file(object_id)
        elif object_id in self._hot:
            self._remove(object_id)
        else:
            return self._small.pop(object_id, None) is not None
        self._report_bytes()
        return True

    def close(self) -> None:
        """Free all memory, and remove all files."""
        if self._writing is not None:
            self._writing[1].abandon()
        for values in (self._small, self._hot, self._cold, self._memories, self._dropped):
            values.clear()
        if self._folder is not None:
            self._folder.close()
        self._share.close()

    def _check(self, object_id: ObjectId, n_bytes: int) -> None:
        if n_bytes > self.hot_most:
            value = f"the object {object_id.hex()}"
            raise ObjectTooLargeError(value, n_bytes, "its worker's host", self.hot_most, RAISE_LIMIT)

    def _add(self, object_id: ObjectId, block: SharedBlock) -> None:
        self._hot[object_id] = block
        contents = self._memories.get(block.memory)
        if contents is None:
            contents = self._memories[block.memory] = _Contents()
        contents.object_ids.add(object_id)
        contents.n_bytes += block.n_bytes
        memory = weakref.ref(block.memory, self._given_back.append)
        self._held[memory] = self._held.get(memory, 0) + block.n_bytes
        self._held_bytes += block.n_bytes
        self._report_bytes()

    def _remove(self, object_id: ObjectId) -> None:
        """Remove a hot value. Its memory is freed when no value and no reader uses that memory."""
        block = self._hot.pop(object_id)
        contents = self._memories.get(block.memory)
        if contents is not None and object_id in contents.object_ids:
            contents.object_ids.remove(object_id)
            contents.n_bytes -= block.n_bytes
            if not contents.object_ids:
                del self._memories[block.memory]
                self._dropped.append(block.memory)

    def _report_bytes(self) -> None:
        self._share.report(self.hot_bytes, self.cold_bytes)

    # Spilling, and reading back

    def is_over(self) -> bool:
        """Return whether the stores of this user exceed their budget of shared memory."""
        return self.hot_bytes + self._share.others.hot > self.hot_most

    @property
    def has_dropped(self) -> bool:
        """Whether memory or files of dropped values can be freed now."""
        return bool(self._dropped) or (self._folder is not None and self._folder.has_removed)

    def waits_for_readers(self) -> bool:
        """Return whether values could be spilled if their readers were done."""
        return self._can_write() and any(each.n_bytes <= self._free_on_disk() for each in self._readers.values())

    def make_room(self) -> bool:
        """Free dropped values and, if over the budget, spill a piece of a value. Return whether work is left."""
        may_free_more = self._free_some()
        return bool(self._dropped) or self._spill_some() or may_free_more

    def _free_some(self) -> bool:
        """Free memory and files of dropped values for about `FREE_SECONDS`. Return whether more can be freed."""
        ends_at = self._now() + FREE_SECONDS
        while self._dropped:
            self._dropped.popleft()
            if self._now() >= ends_at:
                return True
        if self._folder is None:
            return False
        before = self._folder.n_bytes
        may_free_more = self._folder.unlink_some(self._now, ends_at)
        if self._folder.n_bytes < before:
            self._disk_paused_until = float("-inf")  # the disk has space now
            self._report_bytes()
        return may_free_more

    def _spill_some(self) -> bool:
        if self._writing is None and self.is_over():
            self._share.refresh()  # stores that have ended no longer count
            if self.is_over() and self._compact_slab():
                return True
        if self._writing is None and not self._start_spill():
            return False
        assert self._writing is not None
        object_id, writing = self._writing
        # Meanwhile it may have been dropped, stored again, or read.
        is_wanted = self._hot.get(object_id) is writing.block and object_id not in self._readers
        is_written = False
        try:
            is_written = is_wanted and writing.write_piece()
        except OSError as error:
            is_wanted = False
            writing.abandon()
            self._pause_disk(error)
        if is_written:
            self._writing = None
            self._finish_spill(object_id, writing)
        elif not is_wanted:
            self._writing = None
            writing.abandon()
        return True

    def _compact_slab(self) -> bool:
        """Move the values of a slab that is less than half full to the slab being filled. Return whether any moved.

        Slabs with readers, and the slab with the next value to spill, are skipped.
        """
        next_cold = self._next_cold()
        stays = {self._slabs.being_filled(), None if next_cold is None else self._hot[next_cold].memory}
        stays |= {reader.memory for reader in self._readers.values()}
        for memory, contents in self._memories.items():
            if memory not in stays and 2 * contents.n_bytes < memory.filled:
                with contextlib.suppress(OSError):
                    for object_id in tuple(contents.object_ids):
                        block = self._slabs.put(self._hot[object_id].view())
                        self._remove(object_id)
                        self._add(object_id, block)
                    return True
                return False
        return False

    def _finish_spill(self, object_id: ObjectId, writing: ValueWrite) -> None:
        value = _Cold(list(writing.block.sizes), writing.block.n_bytes, writing.checksum)
        self._cold[object_id] = value
        assert self._folder is not None
        self._folder.add(object_id, value.n_bytes)
        self._spilled_bytes += value.n_bytes
        self._remove(object_id)
        self._report_bytes()

    def _start_spill(self) -> bool:
        if not self._can_write():
            return False
        object_id = self._next_cold()
        if object_id is None:
            return False
        assert self._folder is not None
        try:
            self._writing = object_id, self._folder.begin(object_id, self._hot[object_id])
        except OSError as error:
            self._pause_disk(error)
            return False
        return True

    def _can_write(self) -> bool:
        return self._folder is not None and self._now() >= self._disk_paused_until and self.is_over()

    def _free_on_disk(self) -> int:
        return self.cold_most - self.cold_bytes - self._share.others.cold

    def _next_cold(self) -> ObjectId | None:
        """Return a value to spill: one that fits on the disk, in the least recently used memory without readers."""
        room = self._free_on_disk()
        is_read = {reader.memory for reader in self._readers.values()}
        for memory, contents in self._memories.items():
            if memory not in is_read:
                object_id = next(iter(contents.object_ids))
                block = self._hot[object_id]
                if block.n_bytes <= room:
                    return object_id
        return None

    def _pause_disk(self, error: OSError) -> None:
        """Stop writing to the disk for `DISK_PAUSE_SECONDS`. Hot values stay hot."""
        assert self._folder is not None
        reason = str(error)  # a stored log record would keep the value alive, in the frames of the error
        logger.warning("values stay in memory, because %s cannot be written: %s", self._folder.base, reason)
        self._disk_paused_until = self._now() + DISK_PAUSE_SECONDS

    def _load(self, object_id: ObjectId) -> None:
        assert self._folder is not None
        value = self._cold[object_id]
        try:
            block = self._slabs.new(value.sizes)
            self._folder.read(object_id, block, value.checksum)
        finally:
            self._forget_file(object_id)
        self._read_bytes += value.n_bytes
        self._add(object_id, block)

    def _forget_file(self, object_id: ObjectId) -> None:
        assert self._folder is not None
        del self._cold[object_id]
        self._folder.remove(object_id)
