"""Values: frames of users as they lie in a record: in the database, or, if they are large, in files beside it.

Used by the record. A file is whole and on disk, its name too, before the row that names it is written. Must never: look
into a frame.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Frames: TypeAlias = Sequence[Any]
"""Buffers that belong together, as they travel."""

IN_DATABASE_BYTES = 64 * 1024
"""Values up to this size are in the database."""

_ROW = struct.Struct("<III")


class Row(NamedTuple):
    """The arguments of one call, as in a `Task`."""

    payload: bytes
    object_ids: bytes = b""
    frames: Frames = ()


def pack_rows(rows: Sequence[Row]) -> bytes:
    """Return the arguments of rows as one block: sizes of all, then all bytes."""
    heads: list[bytes] = []
    bodies: list[Any] = []
    for payload, object_ids, frames in rows:
        heads.append(_ROW.pack(len(payload), len(object_ids), len(frames)))
        heads.append(pack_sizes(frames))
        bodies += (payload, object_ids, *frames)
    return b"".join((*heads, *bodies))


def unpack_rows(block: Any, count: int) -> list[Row]:
    """Return the rows of a block.

    Raises:
        ValueError: if it is no block of so many rows.
    """
    view = memoryview(block)
    heads: list[tuple[int, int, tuple[int, ...]]] = []
    at = 0
    try:
        for _ in range(count):
            n_payload, n_ids, n_frames = _ROW.unpack_from(view, at)
            at += _ROW.size
            heads.append((n_payload, n_ids, struct.unpack_from(f"<{n_frames}Q", view, at)))
            at += 8 * n_frames
    except struct.error:
        raise ValueError(f"not a block of {count} rows") from None
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


class ValueFiles:
    """The large values of one job.

    Args:
        folder: for them alone; it is there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def write(self, name: str, frames: Frames) -> None:
        """Write a value. The file is on disk when this returns, its name after `sync`."""
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)
        try:
            for frame in frames:
                view = memoryview(frame).cast("B")
                while view:
                    view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Have the names of all files on disk."""
        os.fsync(self._descriptor)

    def read(self, name: str) -> bytes:
        """Return the bytes of a value. Raises `OSError`."""
        return (self._folder / name).read_bytes()

    def remove(self, name: str) -> None:
        """Remove a value that nothing names any more."""
        (self._folder / name).unlink(missing_ok=True)

    def sizes(self) -> dict[str, int]:
        """Return all files with their bytes."""
        with os.scandir(self._folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries}

    def close(self) -> None:
        """Close the folder. Any number of times."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
