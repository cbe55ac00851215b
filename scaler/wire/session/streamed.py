"""Streamed frames: the frames of a value of another process, which are passed on part by part while they arrive.

The object store makes a stream for each value and a `StreamedFrames` for each reader. The bulk lane of the reader's
pipe takes bytes as its window allows. A part is requested when a reader will soon need it, and dropped when no reader
will need it soon, so memory does not grow with the value. Hosts read at the same pace: a host that starts later, or
falls far behind, waits until another host has the whole value and can send copies.

A reader has at most `AHEAD` parts in memory, and hosts never make a source send the whole value twice.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from scaler.pickling.serialization import Frames

PART_BYTES = 512 * 1024
"""The size of each part that is requested, except for the last part of a value."""
Source: TypeAlias = tuple[Any, bytes]
"""A host that has a value, and where the host has it: a location, or empty if the host has a copy."""
FRAMES_MOST = 1 << 16
"""the most frames of a value, and of a transfer"""
SIZE_MOST = 2**62
"""Values of this size or more are refused."""
_SIZE_BYTES = 8
AHEAD = 4
"""The number of parts that are requested before a reader needs them."""
REPEATED_MOST = 0.5
"""The fraction of a value that may be requested again for hosts that fell behind. After that, they wait for a copy."""


class ValueStream:
    """A value that passes through this process.

    Args:
        source: the host that is asked for parts, and the location of the value there; may be replaced later.
        ask: called with a source and an offset, to request the part at the offset from the source.
    """

    def __init__(self, sizes: Sequence[int], source: Source, ask: Callable[[Source, int], None]) -> None:
        self.source = source
        self.sizes = sizes
        self.n_bytes = sum(sizes)
        self.is_withdrawn = False
        """whether the stream has ended early, so that no further parts arrive"""
        self.readers: weakref.WeakSet[StreamedFrames] = weakref.WeakSet()
        self._ask = ask
        self._parts: dict[int, memoryview] = {}
        self._asked: set[int] = set()
        self._ends = 0
        """the offset at which the last requested part ends"""
        self._repeated_bytes = 0
        """the number of bytes requested again for hosts that fell behind"""

    def size_at(self, offset: int) -> int:
        """Return the size of the part at an offset; 0 if no part begins at this offset."""
        is_part = 0 <= offset < self.n_bytes and not offset % PART_BYTES
        return min(PART_BYTES, self.n_bytes - offset) if is_part else 0

    def add(self, offset: int, part: memoryview) -> None:
        """Add an arrived part."""
        self._asked.discard(offset)
        self._parts[offset] = part
        self.drop_unneeded()
        self.wake()

    def wake(self) -> None:
        """Notify all readers, so that they look for their next parts."""
        for reader in list(self.readers):
            reader.wake()

    def next_for(self, reader: StreamedFrames) -> memoryview | None:
        """Return the part that a reader needs next; None if it has not arrived. Also request missing parts after it."""
        offset = reader.part
        for each in range(offset, min(offset + AHEAD * PART_BYTES, self.n_bytes), PART_BYTES):
            if each not in self._parts and each not in self._asked and self._may_ask(reader, each):
                self._asked.add(each)
                self._ends = max(self._ends, each + PART_BYTES)
                self._ask(self.source, each)
        return self._parts.get(offset)

    def _may_ask(self, reader: StreamedFrames, offset: int) -> bool:
        """Return whether a reader may request the part at `offset`. A host that is far behind the other readers may
        not.
        """
        if reader.host is None or offset >= self._ends:
            return True
        if self._repeated_bytes < REPEATED_MOST * self.n_bytes:
            self._repeated_bytes += PART_BYTES
            return True
        return all(other.part <= reader.part for other in self.readers if other.host is not None)

    def drop_unneeded(self) -> None:
        """Drop the parts that are not among the next `AHEAD` parts of any reader."""
        needed = {reader.part + number * PART_BYTES for reader in self.readers for number in range(AHEAD)}
        self._parts = {offset: part for offset, part in self._parts.items() if offset in needed}

    def ask_again(self, source: Source) -> None:
        """Request the outstanding parts again from `source`, which also gets all later requests."""
        self.source, self._repeated_bytes = source, 0
        for offset in sorted(self._asked):
            self._ask(source, offset)
        self.wake()

    def leave(self, gone: Collection[StreamedFrames]) -> None:
        """Remove readers, whose transfers end early, and notify the remaining readers."""
        self.readers.difference_update(gone)
        for reader in gone:
            reader.has_left = True
            reader.wake()
        self.wake()

    def is_under_way(self) -> bool:
        """Return whether a host has read a part of the value and needs further parts."""
        return any(reader.part for reader in self.readers if reader.host is not None)

    def withdraw(self) -> list[StreamedFrames]:
        """End the stream. Return the readers that do not have the whole value."""
        self.is_withdrawn = True
        self.wake()
        return list(self.readers)


class StreamedFrames(Sequence[Any]):
    """The frames of a streamed value, for one reader.

    Args:
        wake: called when the next bytes of the value may have arrived.
        host: the host that has a copy afterwards; None if no host will have a copy.
        on_all: called when the whole value has been sent.
    """

    def __init__(
        self,
        stream: ValueStream,
        reader: Any,
        wake: Callable[[], None],
        host: Any = None,
        on_all: Callable[[], None] | None = None,
    ) -> None:
        self.stream = stream
        self.reader = reader
        self.wake = wake
        self.host = host
        self.has_left = False
        self._on_all = on_all
        self._offset = 0
        stream.readers.add(self)

    @property
    def part(self) -> int:
        """The offset of the next part that the reader needs."""
        return self._offset - self._offset % PART_BYTES

    def take(self, most_bytes: int) -> memoryview | None:
        """Return the next bytes, at most `most_bytes`; None if the next bytes have not arrived yet."""
        start = self.part
        part = self.stream.next_for(self)
        if part is None:
            return None
        piece = part[self._offset - start : self._offset - start + most_bytes]
        self._offset += len(piece)
        if self._offset == self.stream.n_bytes:
            self.stream.readers.discard(self)
            if self._on_all is not None:
                self._on_all()
        if self.part != start or self._offset == self.stream.n_bytes:
            self.stream.drop_unneeded()
        return piece

    @property
    def ends_early(self) -> bool:
        """Whether no further bytes will arrive."""
        return self.has_left or self.stream.is_withdrawn

    def __len__(self) -> int:
        return len(self.stream.sizes)

    def __iter__(self) -> Iterator[Any]:
        return iter((self,))  # one frame that stands for all, for the lane

    def __getitem__(self, _index: Any) -> Any:
        raise TypeError("the frames of a streamed value cannot be indexed: they arrive part by part")

    def __hash__(self) -> int:
        return id(self)


def stream_of(sizes: bytes, source: Source, ask: Callable[[Source, int], None]) -> ValueStream | None:
    """Return the stream of a value with these sizes of frames (`ObjectPart.sizes`); None if the sizes are invalid."""
    n_frames = len(sizes) // _SIZE_BYTES
    if not 0 < n_frames < FRAMES_MOST:
        return None
    stream = ValueStream(struct.unpack(f"<{n_frames}Q", sizes), source, ask)
    return stream if stream.n_bytes < SIZE_MOST else None


def sizes_of(frames: Frames) -> bytes:
    """Return the sizes of frames, encoded for `stream_of`."""
    return struct.pack(f"<{len(frames)}Q", *(memoryview(frame).nbytes for frame in frames))


def frames_in(data: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """Return the consecutive frames of `data`, given the sizes of the frames."""
    ends = accumulate(sizes)
    return [data[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def part_of(frames: Frames, offset: int, most_bytes: int) -> bytes:
    """Return a copy of at most `most_bytes` of the joined frames, from `offset` on."""
    pieces = []
    for frame in frames:
        view = memoryview(frame).cast("B") if memoryview(frame).nbytes else memoryview(b"")
        if offset < len(view) and most_bytes:
            pieces.append(view[offset : offset + most_bytes])
            most_bytes -= len(pieces[-1])
        offset = max(0, offset - len(view))
    return b"".join(pieces)
