"""Values: frames of users as bytes, as they lie in a record and as the arguments of rows travel.

Must never: look into a frame.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

Frames: TypeAlias = Sequence[Any]
"""Buffers that belong together, as they travel."""

_ROW = struct.Struct("<III")


class Row(NamedTuple):
    """The arguments of one call, as in a `Task`."""

    payload: bytes
    object_ids: bytes = b""
    frames: Frames = ()

    @property
    def is_plain(self) -> bool:
        """Whether it has nothing but its payload."""
        return not (self.object_ids or self.frames)


def pack(blocks: Sequence[bytes]) -> bytes:
    """Return blocks as they lie in a record, and as rows travel together: the length of each, then all bytes."""
    return struct.pack(f"<{len(blocks)}I", *map(len, blocks)) + b"".join(blocks)


class Packed:
    """Blocks that were packed, of which some are cut out.

    Args:
        lengths: of the blocks, if they do not lie before these.

    Raises:
        ValueError: if these are not so many blocks.
    """

    def __init__(self, packed: Any, count: int, lengths: Any = None) -> None:
        view = memoryview(packed)
        if lengths is None:
            lengths, view = view[: 4 * count], view[4 * count :]
        if len(lengths) != 4 * count:
            raise ValueError(f"{len(lengths)} bytes are not the lengths of {count} blocks")
        self._lengths, self._blocks = memoryview(lengths), view
        self._ends = list(accumulate(struct.unpack(f"<{count}I", lengths), initial=0))
        if self._ends[-1] != len(view):
            raise ValueError(f"{count} blocks have {len(view)} bytes and say {self._ends[-1]}")

    def one(self, at: int) -> bytes:
        """Return one block."""
        return bytes(self._blocks[self._ends[at] : self._ends[at + 1]])

    def cut(self, at: int, end: int) -> bytes:
        """Return some of the blocks, packed."""
        return b"".join((self._lengths[4 * at : 4 * end], self._blocks[self._ends[at] : self._ends[end]]))

    def fitting(self, at: int, most: int, most_bytes: int) -> int:
        """Return how many blocks from this one on have no more bytes: at least one, unless there is none."""
        n_fitting = bisect_right(self._ends, self._ends[at] + most_bytes) - 1 - at
        return min(most, max(1, n_fitting), len(self._ends) - 1 - at)


_PLAIN, _SPECIAL = b"\0", b"\1"


def pack_rows(rows: Sequence[bytes | Row]) -> bytes:
    """Return the arguments of rows as one block. `bytes`: a row that has nothing but its payload."""
    plain = [
        each if isinstance(each, bytes) else each.payload for each in rows if isinstance(each, bytes) or each.is_plain
    ]
    if len(plain) == len(rows):
        return _pack_plain(struct.pack(f"<{len(plain)}I", *map(len, plain)), b"".join(plain))
    heads: list[bytes] = []
    bodies: list[Any] = []
    for payload, object_ids, frames in (Row(each) if isinstance(each, bytes) else each for each in rows):
        heads.append(_ROW.pack(len(payload), len(object_ids), len(frames)))
        heads.append(pack_sizes(frames))
        bodies += (payload, object_ids, *frames)
    return b"".join((_SPECIAL, *heads, *bodies))


def _pack_plain(lengths: bytes, blocks: Any) -> bytes:
    few = zlib.compress(lengths, 1)  # most rows are about as long as their neighbours
    return b"".join((_PLAIN, struct.pack("<I", len(few)), few, blocks))


def _unpack_plain(view: memoryview, count: int) -> Packed:
    try:
        (n_few,) = struct.unpack_from("<I", view, 1)
        lengths = zlib.decompressobj().decompress(view[5 : 5 + n_few], 4 * count + 1)
        return Packed(view[5 + n_few :], count, lengths)
    except (struct.error, zlib.error):
        raise ValueError(f"{len(view)} bytes are not a block of {count} rows") from None


class Arguments:
    """The arguments of the rows of a range.

    Args:
        block: from `pack_rows`.

    Raises:
        ValueError: if it is no block of so many rows.
    """

    def __init__(self, block: Any, count: int) -> None:
        view = memoryview(block)
        self.count = count
        is_plain = view[:1] == _PLAIN
        self._packed = _unpack_plain(view, count) if is_plain else None
        self._rows = [] if is_plain else _unpack_special(view, count)

    def one(self, at: int) -> Row:
        """Return those of one row."""
        return self._rows[at] if self._packed is None else Row(self._packed.one(at))

    def fitting(self, at: int, most: int, most_bytes: int) -> int:
        """Return how many rows from this one on may travel together: those that bring nothing but few bytes."""
        return 1 if self._packed is None else self._packed.fitting(at, most, most_bytes)

    def cut(self, at: int, end: int) -> bytes:
        """Return those of rows that travel together."""
        assert self._packed is not None
        return self._packed.cut(at, end)

    def part(self, at: int, end: int) -> bytes:
        """Return those of some rows, as a block."""
        if self._packed is None:
            return pack_rows(self._rows[at:end])
        cut = self._packed.cut(at, end)
        return _pack_plain(cut[: 4 * (end - at)], cut[4 * (end - at) :])


def _unpack_special(view: memoryview, count: int) -> list[Row]:
    heads: list[tuple[int, int, tuple[int, ...]]] = []
    at = 1
    try:
        for _ in range(count):
            n_payload, n_ids, n_frames = _ROW.unpack_from(view, at)
            at += _ROW.size
            heads.append((n_payload, n_ids, struct.unpack_from(f"<{n_frames}Q", view, at)))
            at += 8 * n_frames
    except struct.error:
        raise ValueError(f"{len(view)} bytes are not a block of {count} rows") from None
    rows: list[Row] = []
    for n_payload, n_ids, sizes in heads:
        frames = tuple(take(view, at + n_payload + n_ids, sizes))
        rows.append(Row(bytes(view[at : at + n_payload]), bytes(view[at + n_payload :][:n_ids]), frames))
        at += n_payload + n_ids + sum(sizes)
    if at != len(view):
        raise ValueError(f"not a block of {count} rows: it has {len(view)} bytes and says {at}")
    return rows


def pack_sizes(frames: Frames) -> bytes:
    """Return the sizes of frames as bytes."""
    sizes = [memoryview(frame).nbytes for frame in frames]
    return struct.pack(f"<{len(sizes)}Q", *sizes)


def unpack_sizes(sizes: bytes) -> tuple[int, ...]:
    """Return what `pack_sizes` was given the frames of."""
    return struct.unpack(f"<{len(sizes) // 8}Q", sizes)


def take(view: memoryview, at: int, sizes: Iterable[int]) -> Iterable[bytes]:
    """Cut frames of these sizes out of a view, from a position on."""
    for size in sizes:
        yield bytes(view[at : at + size])
        at += size
