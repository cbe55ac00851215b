"""JobObjects: the functions of a job, and the values that several of its rows use.

Used by the record. Values stay pickled.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator

from scaler.jobs.tables.checksums import DamagedError, DamagedValues, sum_of
from scaler.jobs.terms import JobObject
from scaler.jobs.value_files import ValueFiles
from scaler.jobs.values import Frames

FUNCTION = 3
"""The `InstructionKind` of functions."""


def file_of(object_id: bytes) -> str:
    """Return the file name of an object."""
    return f"object-{object_id.hex()}"


class JobObjects:
    """Stores and reads the functions and values of one job."""

    def __init__(self, connection: sqlite3.Connection, files: ValueFiles, damage: DamagedValues) -> None:
        self._connection, self._files, self._damage = connection, files, damage

    def add(self, new: JobObject) -> None:
        """Store an object. A damaged object with the same id is replaced."""
        if new.object_id in self.ids():
            return
        name = file_of(new.object_id)
        sizes, value = self._files.place(name, new.frames)
        row = (new.object_id, new.kind, new.name, sizes, _sum_of(new.object_id, new.frames), value)
        self._connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)", row)
        self._damage.mend(name)

    def drop(self, object_id: bytes) -> None:
        """Delete an object that was replaced."""
        self._connection.execute("DELETE FROM objects WHERE id = ?", (object_id,))
        self._damage.mend(file_of(object_id))

    def all_ids(self) -> set[bytes]:
        """Return the ids of all objects, including damaged objects."""
        return {row[0] for row in self._connection.execute("SELECT id FROM objects")}

    def ids(self) -> set[bytes]:
        """Return the ids of all undamaged objects."""
        return {each for each in self.all_ids() if file_of(each) not in self._damage.names}

    def read(self, function_id: bytes) -> list[JobObject]:
        """Return all objects. Damaged functions other than `function_id` are deleted, because no row runs with them.

        Raises:
            DamagedError: if an object is damaged. The damage is recorded.
        """
        objects: list[JobObject] = []
        for found, frames, why in self._read_all():
            name = file_of(found[0])
            if why and found[1] == FUNCTION and found[0] != function_id:
                self.drop(found[0])
                continue
            if why:
                raise self._damaged(found[1], name, why)
            objects.append(JobObject(*found, frames))
        return objects

    def one(self, object_id: bytes) -> JobObject:
        """Return one object. Raises `DamagedError` if the object is missing, or is damaged. The damage is recorded."""
        for found, frames, why in self._read("SELECT * FROM objects WHERE id = ?", object_id):
            if why:
                raise self._damaged(found[1], file_of(object_id), why)
            return JobObject(*found, frames)
        raise DamagedError(f"the job has no {file_of(object_id)}: run its program again to resend it")

    def _damaged(self, kind: int, name: str, why: str) -> DamagedError:
        self._damage.note([name])
        what = "the function" if kind == FUNCTION else "a value that rows use"
        return DamagedError(f"{what} is damaged on disk ({name}: {why}): run its program again to resend it")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each damaged object, and the reason."""
        for found, _, why in self._read_all():
            if why:
                yield file_of(found[0]), why

    def _read_all(self) -> Iterator[tuple[tuple[bytes, int, str], Frames, str]]:
        return self._read("SELECT * FROM objects")

    def _read(self, query: str, *values: bytes) -> Iterator[tuple[tuple[bytes, int, str], Frames, str]]:
        for *found, sizes, checksum, value in self._connection.execute(query, values).fetchall():
            object_id, kind, name = found
            frames: Frames = ()
            try:
                frames = self._files.take(file_of(object_id), sizes, value)
                why = "" if _sum_of(object_id, frames) == checksum else "its checksum does not match"
            except DamagedError as error:
                why = str(error)
            yield (object_id, kind, name), frames, why

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of each file that the table uses, with the packed sizes of the frames in the file."""
        for object_id, sizes in self._connection.execute("SELECT id, sizes FROM objects WHERE value IS NULL"):
            yield file_of(object_id), sizes


def _sum_of(object_id: bytes, frames: Frames) -> bytes:
    return sum_of(frames, zlib.crc32(object_id))
