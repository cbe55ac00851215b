"""Values: how frames and arguments of rows are packed into bytes, on disk and in messages.

Used by the record, by the scheduler and by clients. The content of frames is opaque.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

Frames: TypeAlias = Sequence[Any]
"""The buffers of one value, as sent in a message."""

_ROW = struct.Struct("<III")


class RowArguments(NamedTuple):
    """The arguments of the call for one row, in the form that a `Task` has."""

    payload: bytes
    object_ids: bytes = b""
    frames: Frames = ()

    @property
    def is_plain(self) -> bool:
        """Whether the arguments are only a payload, without objects and frames."""
        return not (self.object_ids or self.frames)


def pack(blocks: Sequence[bytes]) -> bytes:
    """Return blocks packed into one: the length of each block, then the bytes of all blocks."""
    return struct.pack(f"<{len(blocks)}I", *map(len, blocks)) + b"".join(blocks)


class PackedBlocks:
    """A view of packed blocks. Raises `ValueError` if `packed` does not hold `count` blocks.

    Args:
        lengths: the lengths of the blocks; None: `packed` begins with the lengths.
    """

    def __init__(self, packed: Any, count: int, lengths: Any = None) -> None:
        view = memoryview(packed)
        if lengths is None:
            lengths, view = view[: 4 * count], view[4 * count :]
        if len(lengths) != 4 * count:
            raise ValueError(f"the lengths of {count} blocks take {4 * count} bytes, not {len(lengths)}")
        self._lengths, self._blocks = memoryview(lengths), view
        self._ends = list(accumulate(struct.unpack(f"<{count}I", lengths), initial=0))
        if self._ends[-1] != len(view):
            raise ValueError(f"{count} blocks have {len(view)} bytes, but their lengths add up to {self._ends[-1]}")

    def one(self, at: int) -> bytes:
        """Return one block."""
        return bytes(self._blocks[self._ends[at] : self._ends[at + 1]])

    def cut(self, at: int, end: int) -> bytes:
        """Return the blocks from `at` up to, but not including, `end`, packed."""
        return b"".join((self._lengths[4 * at : 4 * end], self._blocks[self._ends[at] : self._ends[end]]))

    def fitting(self, at: int, most: int, most_bytes: int) -> int:
        """Return how many blocks, from `at` on, have at most `most_bytes` in total; at least one, except at the end."""
        n_fitting = bisect_right(self._ends, self._ends[at] + most_bytes) - 1 - at
        return min(most, max(1, n_fitting), len(self._ends) - 1 - at)


_PLAIN, _SPECIAL = b"\0", b"\1"


def pack_rows(rows: Sequence[bytes | RowArguments]) -> bytes:
    """Pack the arguments of rows into one block. A row of type `bytes` consists of its payload only."""
    plain = [
        each if isinstance(each, bytes) else each.payload for each in rows if isinstance(each, bytes) or each.is_plain
    ]
    if len(plain) == len(rows):
        return _pack_plain(struct.pack(f"<{len(plain)}I", *map(len, plain)), b"".join(plain))
    heads: list[bytes] = []
    bodies: list[Any] = []
    for payload, object_ids, frames in (RowArguments(each) if isinstance(each, bytes) else each for each in rows):
        heads.append(_ROW.pack(len(payload), len(object_ids), len(frames)))
        heads.append(pack_sizes(frames))
        bodies += (payload, object_ids, *frames)
    return b"".join((_SPECIAL, *heads, *bodies))


def _pack_plain(lengths: bytes, blocks: Any) -> bytes:
    compressed = zlib.compress(lengths, 1)  # neighbouring rows have similar lengths
    return b"".join((_PLAIN, struct.pack("<I", len(compressed)), compressed, blocks))


def _unpack_plain(view: memoryview, count: int) -> PackedBlocks:
    try:
        (n_compressed,) = struct.unpack_from("<I", view, 1)
        lengths = zlib.decompressobj().decompress(view[5 : 5 + n_compressed], 4 * count + 1)
        return PackedBlocks(view[5 + n_compressed :], count, lengths)
    except (struct.error, zlib.error):
        raise ValueError(f"{len(view)} bytes are not a block of {count} rows") from None


class Arguments:
    """The arguments of the rows of a range. Raises `ValueError` if `block` does not hold `count` packed rows."""

    def __init__(self, block: Any, count: int) -> None:
        view = memoryview(block)
        self.count = count
        is_plain = view[:1] == _PLAIN
        self._packed = _unpack_plain(view, count) if is_plain else None
        self._rows = [] if is_plain else _unpack_special(view, count)

    def one(self, at: int) -> RowArguments:
        """Return the arguments of one row."""
        return self._rows[at] if self._packed is None else RowArguments(self._packed.one(at))

    def fitting(self, at: int, most: int, most_bytes: int) -> int:
        """Return how many rows, from `at` on, fit into one task; 1 if any row of the block has objects or frames."""
        return 1 if self._packed is None else self._packed.fitting(at, most, most_bytes)

    def cut(self, at: int, end: int) -> bytes:
        """Return the arguments of the rows from `at` up to, but not including, `end`, packed for one task (see
        `fitting`).
        """
        assert self._packed is not None
        return self._packed.cut(at, end)

    def part(self, at: int, end: int) -> bytes:
        """Return the arguments of the rows from `at` up to, but not including, `end` as a new block."""
        if self._packed is None:
            return pack_rows(self._rows[at:end])
        cut = self._packed.cut(at, end)
        return _pack_plain(cut[: 4 * (end - at)], cut[4 * (end - at) :])


def _unpack_special(view: memoryview, count: int) -> list[RowArguments]:
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
    rows: list[RowArguments] = []
    for n_payload, n_ids, sizes in heads:
        frames = tuple(take(view, at + n_payload + n_ids, sizes))
        rows.append(RowArguments(bytes(view[at : at + n_payload]), bytes(view[at + n_payload :][:n_ids]), frames))
        at += n_payload + n_ids + sum(sizes)
    if at != len(view):
        raise ValueError(f"a block of {len(view)} bytes does not hold {count} rows: their lengths add up to {at}")
    return rows


def pack_sizes(frames: Frames) -> bytes:
    """Pack the sizes of frames."""
    sizes = [memoryview(frame).nbytes for frame in frames]
    return struct.pack(f"<{len(sizes)}Q", *sizes)


def unpack_sizes(sizes: bytes) -> tuple[int, ...]:
    """Unpack the sizes packed by `pack_sizes`."""
    return struct.unpack(f"<{len(sizes) // 8}Q", sizes)


def take(view: memoryview, at: int, sizes: Iterable[int]) -> Iterable[bytes]:
    """Yield consecutive frames of the given sizes from a view. `at`: the position of the first frame."""
    for size in sizes:
        yield bytes(view[at : at + size])
        at += size
