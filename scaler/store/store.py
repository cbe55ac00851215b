"""ValueStore: the values that one agent keeps, by id: in shared memory, and those that nobody reads on disk.

    taken --> hot --over the budget, and nobody reads it--> cold
               ^                                              |
               +---------------somebody needs it--------------+

Small values are bytes of the process and always hot. Others are blocks of shared memory (hot) or files (cold). The
budget counts what memory holds, not what values have: a slab counts until its last value and its last reader are gone.
Values go cold bit by bit, the least recently used first. Dropped values are forgotten at once; their memory and files
are freed bit by bit, and count until then. Reading goes on when all is full: then more is hot than the budget has,
until readers are done.

Called by the actor that owns it, in one thread. Must never: wait, but for the disk; or know who needs a value.
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

DISK_REST_SECONDS = 5.0
"""After an error of the disk nothing is written to it for so long."""
FREE_SECONDS = 0.005
"""Limit of the time for which memory and files of dropped values are freed in one go."""
RAISE_IT = "use less at a time, or raise the setting object_memory_bytes of the cluster"


class StoreGauges(NamedTuple):
    """What a store holds, and may hold, in bytes.

    Attributes:
        hot: shared memory that counts for it.
        hot_most: for all stores of this user on this host.
        cold: its values on disk.
        cold_most: for all stores of this user on this host; 0: there is no disk.
        spilled: what it has written there.
        read: what it has read back.
    """

    hot: int = 0
    hot_most: int = 0
    cold: int = 0
    cold_most: int = 0
    spilled: int = 0
    read: int = 0


@dataclass(slots=True)
class _Cold:
    """A value on disk."""

    sizes: list[int]
    n_bytes: int
    checksum: int


@dataclass(slots=True)
class _Contents:
    """The values in one memory, and their bytes."""

    object_ids: set[ObjectId] = field(default_factory=set)
    n_bytes: int = 0


class ValueStore:
    """The values of one agent.

    Args:
        share: adds up what all stores of this user hold here.
        hot_most: how many bytes they may have in shared memory, together.
        folder: for what is cold; None: there is no disk.
        cold_most: how many bytes they may have on disk, together.
        now: the time in seconds.
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
        """what is in which memory of this host's budget, the least recently used first"""
        self._held: dict[weakref.ref[Memory], int] = {}
        """bytes in memory that somebody has, this store or a reader"""
        self._held_bytes = 0
        self._given_back: deque[weakref.ref[Memory]] = deque()
        """memory that is gone and still counts: in which thread its last reader was done is not known"""
        self._readers: weakref.WeakValueDictionary[ObjectId, SharedBlock] = weakref.WeakValueDictionary()
        self._writing: tuple[ObjectId, ValueWrite] | None = None
        self._dropped: deque[Memory] = deque()
        """memory in which no value is left, to be given back"""
        self._disk_rests_until = float("-inf")
        self._spilled_bytes = self._read_bytes = 0

    # What there is

    def gauges(self) -> StoreGauges:
        """Return what it holds and may hold, for viewers."""
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

    # Taking in, finding, dropping

    def take(self, object_id: ObjectId, frames: Frames) -> None:
        """Take a value in: a copy of its frames.

        Raises:
            ObjectTooLargeError: if it can never be in shared memory here.
            MemoryError: if this host has no memory for it.
        """
        if size_of(frames) > INLINE_FRAMES_BYTES:
            self._check(object_id, size_of(frames))
            try:
                self._add(object_id, self._slabs.put(frames))
                return
            except OSError as error:  # it works without, with a copy for each processor
                logger.warning("no shared memory for an object: %s", error)
        self._small[object_id] = [bytes(memoryview(frame)) for frame in frames]

    def take_block(self, object_id: ObjectId, block: SharedBlock) -> None:
        """Take a value in that is in the memory of a process of this agent.

        Raises:
            ObjectTooLargeError: if it can never be in shared memory here.
        """
        self._check(object_id, block.n_bytes)
        self._add(object_id, block)

    def take_foreign(self, object_id: ObjectId, block: SharedBlock) -> None:
        """Take a value in that is in the memory of somebody else, and does not count here."""
        self._hot[object_id] = block

    def frames(self, object_id: ObjectId) -> Frames:
        """Return the frames of a value, read-only: small ones are copied, because a mapping takes a descriptor.

        Raises as `find` does.
        """
        small, block = self.find(object_id)
        if block is None:
            return small
        if sum(block.sizes) < SHARE_LEAST_BYTES:
            return [bytes(frame) for frame in self._hot[object_id].view()]
        return block.map(remember=True)

    def location(self, object_id: ObjectId) -> bytes:
        """Return where other processes of this host find a value, as long as it is hot; empty: nowhere.

        Raises as `find` does.
        """
        _, block = self.find(object_id)
        return b"" if block is None else block.location()

    def find(self, object_id: ObjectId) -> tuple[Sequence[bytes], SharedBlock | None]:
        """Return the frames of a small value, or the block of another one. It stays hot as long as somebody has the
        block that was returned.

        Raises:
            KeyError: if it is not here.
            OSError: if its file cannot be read, or there is no memory for it; then it is not here any more.
        """
        if object_id in self._small:
            return self._small[object_id], None
        if object_id in self._cold:
            self._bring_back(object_id)
        block = self._hot[object_id]
        if block.memory in self._memories:
            self._memories[block.memory] = self._memories.pop(block.memory)  # the last one to go cold
        reader = self._readers.get(object_id)
        place = block.memory, block.offset
        if reader is None or (reader.memory, reader.offset) != place:  # that is of a value that was before
            reader = self._readers[object_id] = SharedBlock(block.memory, block.sizes, block.offset)
        return (), reader

    def drop(self, object_id: ObjectId) -> bool:
        """Forget a value. Return whether it was here. `make_room` frees its memory or file."""
        if object_id in self._cold:
            self._forget_file(object_id)
        elif object_id in self._hot:
            self._remove(object_id)
        else:
            return self._small.pop(object_id, None) is not None
        self._say()
        return True

    def close(self) -> None:
        """Give everything back."""
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
            raise ObjectTooLargeError(value, n_bytes, "its worker's host", self.hot_most, RAISE_IT)

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
        self._say()

    def _remove(self, object_id: ObjectId) -> None:
        """Remove a hot value. Its memory goes with the last of its values and readers."""
        block = self._hot.pop(object_id)
        contents = self._memories.get(block.memory)
        if contents is not None and object_id in contents.object_ids:
            contents.object_ids.remove(object_id)
            contents.n_bytes -= block.n_bytes
            if not contents.object_ids:
                del self._memories[block.memory]
                self._dropped.append(block.memory)

    def _say(self) -> None:
        self._share.say(self.hot_bytes, self.cold_bytes)

    # Going cold, and coming back

    def is_over(self) -> bool:
        """Return whether more is hot than may be."""
        return self.hot_bytes + self._share.others.hot > self.hot_most

    @property
    def has_dropped(self) -> bool:
        """Whether there is memory, or are files, of dropped values to free now."""
        return bool(self._dropped) or (self._folder is not None and self._folder.has_removed)

    def waits_for_readers(self) -> bool:
        """Return whether values would go cold if their readers were done with them."""
        return self._can_write() and any(each.n_bytes <= self._room_on_disk() for each in self._readers.values())

    def make_room(self) -> bool:
        """Free some of what was dropped, and do a piece of what brings this store back into the budget. Return whether
        there is more to do now.
        """
        may_free_more = self._free_some()
        return bool(self._dropped) or self._spill_some() or may_free_more

    def _free_some(self) -> bool:
        """Free memory and files of dropped values for about `FREE_SECONDS`. Return whether there are more."""
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
            self._disk_rests_until = float("-inf")  # there is room now
            self._say()
        return may_free_more

    def _spill_some(self) -> bool:
        if self._writing is None and self.is_over():
            self._share.look()  # those that have ended count no more
            if self.is_over() and self._empty_a_slab():
                return True
        if self._writing is None and not self._begin_writing():
            return False
        assert self._writing is not None
        object_id, writing = self._writing
        # Meanwhile it may have been dropped, taken in anew, or read.
        is_wanted = self._hot.get(object_id) is writing.block and object_id not in self._readers
        is_written = False
        try:
            is_written = is_wanted and writing.go_on()
        except OSError as error:
            is_wanted = False
            writing.abandon()
            self._rest(error)
        if is_written:
            self._writing = None
            self._goes_cold(object_id, writing)
        elif not is_wanted:
            self._writing = None
            writing.abandon()
        return True

    def _empty_a_slab(self) -> bool:
        """Move what is left in a slab, if that is less than half of it, to the slab that is being filled. The slab
        whose values go cold next is left alone.
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

    def _goes_cold(self, object_id: ObjectId, writing: ValueWrite) -> None:
        value = _Cold(list(writing.block.sizes), writing.block.n_bytes, writing.checksum)
        self._cold[object_id] = value
        assert self._folder is not None
        self._folder.add(object_id, value.n_bytes)
        self._spilled_bytes += value.n_bytes
        self._remove(object_id)
        self._say()

    def _begin_writing(self) -> bool:
        """Begin to write the next value that goes cold. Return whether there is one."""
        if not self._can_write():
            return False
        object_id = self._next_cold()
        if object_id is None:
            return False
        assert self._folder is not None
        try:
            self._writing = object_id, self._folder.begin(object_id, self._hot[object_id])
        except OSError as error:
            self._rest(error)
            return False
        return True

    def _can_write(self) -> bool:
        return self._folder is not None and self._now() >= self._disk_rests_until and self.is_over()

    def _room_on_disk(self) -> int:
        return self.cold_most - self.cold_bytes - self._share.others.cold

    def _next_cold(self) -> ObjectId | None:
        """Return a value of the memory that was used least recently and that nobody reads, if there is room on disk."""
        room = self._room_on_disk()
        is_read = {reader.memory for reader in self._readers.values()}
        for memory, contents in self._memories.items():
            if memory not in is_read:
                object_id = next(iter(contents.object_ids))
                block = self._hot[object_id]
                if block.n_bytes <= room:
                    return object_id
        return None

    def _rest(self, error: OSError) -> None:
        """Leave the disk alone for some time. What is hot stays so."""
        assert self._folder is not None
        reason = str(error)  # a log record that somebody keeps would keep the value, too, in the frames of the error
        logger.warning("values stay in memory, because %s cannot be written: %s", self._folder.base, reason)
        self._disk_rests_until = self._now() + DISK_REST_SECONDS

    def _bring_back(self, object_id: ObjectId) -> None:
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
