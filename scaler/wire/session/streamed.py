"""Streamed frames: they stand for a value that another process has, and that passes on while it comes, part by part.

Made by the object store, one stream for each value and one `StreamedFrames` for each reader; the bulk lane of the
reader's pipe takes the bytes as its window opens. A part is asked for when a reader is near it, and dropped when no
reader is: so what is here does not grow with the value. Hosts read together: one that comes late waits until the
others have all of it, and one that fell behind may wait until the first has: whoever has it all sends it to the others.
Must never: hold more than `AHEAD` parts for a reader, or ask a source twice for all of a value, for whichever hosts.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from scaler.pickling.serialization import Frames

PART_BYTES = 512 * 1024
"""How much of a value is asked for at once; the last part of one is smaller."""
Source: TypeAlias = tuple[Any, bytes]
"""A host, and the location of the value there; no location: it has a copy."""
FRAMES_MOST = 1 << 16
"""of a value; a transfer has no more"""
SIZE_MOST = 2**62
"""No value is larger, whatever is said of it."""
_SIZE_BYTES = 8
AHEAD = 4
"""How many parts are asked for ahead of a reader."""
AGAIN_MOST = 0.5
"""So much of a value may be asked for once more, for hosts that fell behind, until they wait for the first."""


class ValueStream:
    """A value on its way through this process.

    Args:
        sizes: of its frames.
        source: who is asked for parts, and what is said of the value; it may be another one later.
        ask: asks a source for the part that begins at an offset.
    """

    def __init__(self, sizes: Sequence[int], source: Source, ask: Callable[[Source, int], None]) -> None:
        self.source = source
        self.sizes = sizes
        self.n_bytes = sum(sizes)
        self.is_withdrawn = False
        """whether no more of it comes"""
        self.readers: weakref.WeakSet[StreamedFrames] = weakref.WeakSet()
        """those that have not got all of it"""
        self._ask = ask
        self._parts: dict[int, memoryview] = {}
        self._asked: set[int] = set()
        self._ends = 0
        """where the last part ends that was ever asked for"""
        self._again_bytes = 0
        """what the source was asked for once more, for hosts that fell behind"""

    def size_at(self, offset: int) -> int:
        """Return how many bytes the part at an offset has; 0: none begins there."""
        is_part = 0 <= offset < self.n_bytes and not offset % PART_BYTES
        return min(PART_BYTES, self.n_bytes - offset) if is_part else 0

    def add(self, offset: int, part: memoryview) -> None:
        """A part has come."""
        self._asked.discard(offset)
        self._parts[offset] = part
        self.drop_unneeded()
        self.wake()

    def wake(self) -> None:
        """Have all readers look for what they need."""
        for reader in list(self.readers):
            reader.wake()

    def next_for(self, reader: StreamedFrames) -> memoryview | None:
        """Return the part that it needs next, if that is here. Ask for what is not, or wait for the first host."""
        offset = reader.part
        for each in range(offset, min(offset + AHEAD * PART_BYTES, self.n_bytes), PART_BYTES):
            if each not in self._parts and each not in self._asked and self._may_ask(reader, each):
                self._asked.add(each)
                self._ends = max(self._ends, each + PART_BYTES)
                self._ask(self.source, each)
        return self._parts.get(offset)

    def _may_ask(self, reader: StreamedFrames, offset: int) -> bool:
        """A host that fell behind is no reason to ask for all of a value once more: another one will have it all."""
        if reader.host is None or offset >= self._ends:
            return True
        if self._again_bytes < AGAIN_MOST * self.n_bytes:
            self._again_bytes += PART_BYTES
            return True
        return all(other.part <= reader.part for other in self.readers if other.host is not None)

    def drop_unneeded(self) -> None:
        """Keep only parts that a reader needs next."""
        needed = {reader.part + number * PART_BYTES for reader in self.readers for number in range(AHEAD)}
        self._parts = {offset: part for offset, part in self._parts.items() if offset in needed}

    def ask_again(self, source: Source) -> None:
        """What was asked for does not come, or comes from another one from now on."""
        self.source, self._again_bytes = source, 0
        for offset in sorted(self._asked):
            self._ask(source, offset)
        self.wake()

    def leave(self, gone: Iterable[StreamedFrames]) -> None:
        """These read no more of it. One of those behind them may be the first now."""
        self.readers.difference_update(gone)
        self.wake()

    def is_under_way(self) -> bool:
        """Return whether a host that has some of it reads on."""
        return any(reader.part for reader in self.readers if reader.host is not None)

    def withdraw(self) -> list[StreamedFrames]:
        """No more of it comes. Return the readers that have not got all of it."""
        self.is_withdrawn = True
        self.wake()
        return list(self.readers)


class StreamedFrames(Sequence[Any]):
    """The frames of a streamed value, for one reader.

    Args:
        stream: the value.
        reader: who reads it.
        wake: called when more of it may leave.
        host: the host that has a copy afterwards, if it is one.
        on_all: called when it has left as a whole.
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
        self._on_all = on_all
        self._offset = 0
        stream.readers.add(self)

    @property
    def part(self) -> int:
        """The offset of the part that it needs next."""
        return self._offset - self._offset % PART_BYTES

    def take(self, most_bytes: int) -> memoryview | None:
        """Return the next bytes, at most so many; None: they have not come yet."""
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

    def __len__(self) -> int:
        return len(self.stream.sizes)

    def __iter__(self) -> Iterator[Any]:
        return iter((self,))  # one that stands for all, for the lane

    def __getitem__(self, _index: Any) -> Any:
        raise TypeError("these frames come part by part")

    def __hash__(self) -> int:
        return id(self)


def stream_of(sizes: bytes, source: Source, ask: Callable[[Source, int], None]) -> ValueStream | None:
    """Return the stream of a value whose first part has come; None: these are no sizes of frames.

    Args:
        sizes: of its frames, as in `ObjectPart`.
        source: as for a `ValueStream`.
        ask: as for a `ValueStream`.
    """
    n_frames = len(sizes) // _SIZE_BYTES
    if not 0 < n_frames < FRAMES_MOST:
        return None
    stream = ValueStream(struct.unpack(f"<{n_frames}Q", sizes), source, ask)
    return stream if stream.n_bytes < SIZE_MOST else None


def sizes_of(frames: Frames) -> bytes:
    """Return the sizes of frames for `stream_of`."""
    return struct.pack(f"<{len(frames)}Q", *(memoryview(frame).nbytes for frame in frames))


def frames_in(data: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """Return the frames that lie in `data`, one after the other."""
    ends = accumulate(sizes)
    return [data[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def part_of(frames: Frames, offset: int, most_bytes: int) -> bytes:
    """Return a copy of so many bytes of frames that lie one after the other."""
    pieces = []
    for frame in frames:
        view = memoryview(frame).cast("B") if memoryview(frame).nbytes else memoryview(b"")
        if offset < len(view) and most_bytes:
            pieces.append(view[offset : offset + most_bytes])
            most_bytes -= len(pieces[-1])
        offset = max(0, offset - len(view))
    return b"".join(pieces)
