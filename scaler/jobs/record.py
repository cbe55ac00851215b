"""Record: one job on disk: its terms, the arguments of its rows in ranges, and the result of each row that has ended.

Written to by one thread, in groups: `begin`, changes, `commit`. What `commit` has returned from survives a power cut.
Read by that thread, and by `scaler_jobs --file`. Must never: unpickle, or delete what it cannot read.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from scaler.jobs import schema
from scaler.jobs.schema import RecordError
from scaler.jobs.values import (
    IN_DATABASE_BYTES,
    Arguments,
    Frames,
    Packed,
    Row,
    ValueFiles,
    pack_sizes,
    take,
    unpack_sizes,
)

DATABASE, VALUES = "job.sqlite", "values"
"""What is in the folder of a job."""

PART = ".part-"
"""So the names of folders begin that are being made or removed."""

OPEN, DONE, CANCELED, STOPPED = STATES = ("open", "done", "canceled", "stopped")
"""The states of a job. `STOPPED`: too many rows have failed."""

FAILURES_SHOWN = 5
"""So many of the rows that have failed are in a summary."""

ENDED_WELL, FAILED = 1, 2
"""What `ended_rows` says of a row; 0: it has not ended."""


@dataclass(frozen=True)
class JobTerms:
    """What does not change about a job."""

    name: str
    owner: str
    """whose it is: only they find it"""
    prefix: bytes
    """the ids of its tasks begin with it"""
    function_id: bytes
    """of the program that has made it, until its first object is there: that is its function"""
    function: str
    """its name, for people"""
    program: str = ""
    """which program has started it, for people"""
    python: str = ""
    """with which minor version of Python its values are written"""
    fingerprint: dict[str, str] = field(default_factory=dict)
    """what the function is made of, by part, as hashes: the same ones are the same function"""
    options: bytes = b""
    priority: int = 0
    task_name: str = ""
    is_attended: bool = False
    """whether it goes on only while a client is attached"""
    max_failures: float | None = None
    """how many rows may fail, as a number or, below 1, as a part of those that have ended; None: any number"""
    keep_seconds: float = 0.0
    """how long it is kept after its last change"""
    created: float = 0.0
    """seconds since 1970"""


class Object(NamedTuple):
    """A function or a value that several rows use."""

    object_id: bytes
    kind: int
    name: str
    frames: Frames


class Range(NamedTuple):
    """Rows that have come together."""

    first: int
    n_rows: int
    digest: bytes
    """a hash of their arguments, if those are plain; else empty"""
    done: int = 0
    failed: int = 0
    duration_us: int = 0
    """how long the runs took by which its rows have ended"""

    @property
    def n_open(self) -> int:
        return self.n_rows - self.done - self.failed


class Result(NamedTuple):
    """How a row has ended, or how several neighbours have, if all of them have ended well."""

    row: int
    """the first one"""
    status: int
    """a `TaskStatus`; 0: well"""
    frames: Frames
    """of several rows: one frame, in which theirs are packed"""
    n_rows: int = 1
    duration_us: int = 0
    """how long the run took"""


COLUMNS = "row, count, status, sizes, value"


@dataclass(frozen=True)
class Summary:
    """A job in a line."""

    terms: JobTerms
    state: str
    reason: str
    """why it has stopped, or pauses, for people"""
    is_sealed: bool
    """whether all its rows are known"""
    rows: int
    done: int
    failed: int
    size_bytes: int
    changed: float
    """when its last row has ended, in seconds since 1970"""
    failures: Sequence[Result] = ()
    """the first rows that have failed"""
    said: int = 0
    """how many rows the scheduler has said to tasks, and have not ended"""

    def info(self) -> dict[str, Any]:
        """Return it as clients are told of it."""
        terms = self.terms
        return {
            "name": terms.name, "owner": terms.owner, "function": terms.function, "program": terms.program,
            "attended": terms.is_attended, "created": terms.created, "state": self.state, "reason": self.reason,
            "sealed": self.is_sealed, "rows": self.rows, "done": self.done, "failed": self.failed, "said": self.said,
            "bytes": self.size_bytes, "changed": self.changed,
        }  # fmt: skip


class JobRecord:
    """The record of one job. Made by `create` and `open`."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._connection = connection
        self._files = ValueFiles(folder / VALUES)
        self._sizes = self._files.sizes()
        """of the files, by name"""
        self._files_bytes = sum(self._sizes.values())
        self._must_sync = False
        known = dict(connection.execute("SELECT key, value FROM job"))
        try:
            self.terms = JobTerms(**{**json.loads(known["terms"]), "prefix": known["prefix"],
                                     "function_id": known["function_id"], "options": known["options"]})  # fmt: skip
            self.state, self.reason = known["state"], known["reason"]
            self.is_sealed, self.changed = bool(known["is_sealed"]), float(known["changed"])
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{folder} holds no whole job: {error!r}") from None
        self._read_ranges()
        self._read_marks()
        self.first_failures = self._read_first_failures()
        """of the rows that had failed when it was opened"""

    @classmethod
    def create(cls, folder: Path, terms: JobTerms) -> JobRecord:
        """Make the record of a new job in a folder that is not there yet. It is on disk when this returns.

        It is made under another name first: a folder of a job holds a whole one.
        """
        part = folder.with_name(f"{PART}{os.urandom(8).hex()}")
        try:
            cls._make(part, terms)
        except BaseException:  # raised again
            shutil.rmtree(part, ignore_errors=True)
            raise
        part.rename(folder)
        sync_folder(folder.parent)
        return cls.open(folder)

    @staticmethod
    def _make(folder: Path, terms: JobTerms) -> None:
        folder.mkdir(mode=0o700)
        (folder / VALUES).mkdir(mode=0o700)
        connection = schema.create(folder / DATABASE)
        plain = {key: value for key, value in asdict(terms).items() if type(value) is not bytes}
        known = {"terms": json.dumps(plain), "prefix": terms.prefix, "function_id": terms.function_id,
                 "options": terms.options, "state": OPEN, "reason": "", "is_sealed": 0,
                 "changed": terms.created}  # fmt: skip
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO job VALUES (?, ?)", known.items())
        connection.execute("COMMIT")
        connection.close()
        sync_folder(folder)

    @classmethod
    def open(cls, folder: Path, *, writing: bool = True) -> JobRecord:
        """Open a record that is there.

        Raises:
            RecordError: if it is none, is not whole, or is of a later version.
            sqlite3.Error: if it is damaged.
            OSError: if it cannot be read.
        """
        file = folder / DATABASE
        if not file.is_file():
            raise RecordError(f"{folder} holds no job: it has no file {DATABASE}")
        connection = schema.open_writing(file) if writing else schema.open_reading(file)
        try:
            return cls(folder, connection)
        except BaseException:  # raised again
            connection.close()
            raise

    def close(self) -> None:
        """Close the files. What was not committed is not kept."""
        self._connection.close()
        self._files.close()

    # Changes

    def begin(self) -> None:
        """Begin a group of changes."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Have all changes since `begin` on disk.

        Raises:
            sqlite3.Error, OSError: if that failed; `roll_back` is next.
        """
        if self._must_sync:
            self._files.sync()
            self._must_sync = False
        self._connection.execute("COMMIT")

    def roll_back(self) -> None:
        """Forget all changes since `begin`."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._read_ranges()
        self._read_marks()
        self.first_failures = self._read_first_failures()
        known = dict(self._connection.execute("SELECT key, value FROM job WHERE key != 'marked'"))
        self.state, self.reason, self.is_sealed = known["state"], known["reason"], bool(known["is_sealed"])
        self.terms = replace(self.terms, function_id=known["function_id"])

    def add_object(self, new: Object) -> None:
        """Keep a function or a value of rows. The first one is the function of them all, whoever has sent it."""
        if not self._connection.execute("SELECT 1 FROM objects LIMIT 1").fetchone():
            self._set("function_id", new.object_id)
            self.terms = replace(self.terms, function_id=new.object_id)
        sizes, value = self._place(f"object-{new.object_id.hex()}", new.frames)
        self._connection.execute(
            "INSERT OR IGNORE INTO objects VALUES (?, ?, ?, ?, ?)", (new.object_id, new.kind, new.name, sizes, value)
        )

    def add_range(self, first: int, count: int, digest: bytes, block: Any) -> bool:
        """Keep the arguments of the next rows. Return whether they were not known already.

        Raises:
            ValueError: if they are not the next rows.
        """
        if first < self.rows:
            return False
        if first > self.rows or count < 1 or self.is_sealed:
            raise ValueError(f"{count} rows from row {first} do not follow the {self.rows} rows of the job")
        sizes, value = self._place(f"rows-{first}", (block,))
        self._connection.execute("INSERT INTO ranges VALUES (?, ?, ?, ?, ?)", (first, count, digest, sizes, value))
        self._firsts.append(first)
        self.ranges[first] = Range(first, count, digest)
        self.rows += count
        return True

    def seal(self) -> None:
        """No further rows come."""
        self._set("is_sealed", 1)
        self.is_sealed = True

    def mark(self, rows: Iterable[int], not_begun: Iterable[int] = ()) -> None:
        """Note that these rows may begin from now on, and others have not. A row that ends is marked no longer."""
        self.marked.update(rows)
        self.marked.difference_update(not_begun)
        self._keep_marks()

    def _keep_marks(self) -> None:
        block = struct.pack(f"<{len(self.marked)}Q", *sorted(self.marked))
        self._connection.execute("INSERT OR REPLACE INTO job VALUES ('marked', ?)", (block,))

    def _read_marks(self) -> None:
        found = self._connection.execute("SELECT value FROM job WHERE key = 'marked'").fetchone()
        block = found[0] if found else b""
        self.marked: set[int] = set(struct.unpack(f"<{len(block) // 8}Q", block))

    def add_results(self, results: Sequence[Result]) -> int:
        """Keep how rows have ended. Return how many of these had not ended before."""
        execute, before = self._connection.execute, self._connection.total_changes
        lines: list[tuple[int, int, int, bytes | None, bytes | None]] = []
        for row, status, frames, count, _ in results:
            if count > 1 or (len(frames) == 1 and len(frames[0]) <= IN_DATABASE_BYTES):
                lines.append((row, count, status, None, frames[0]))
            elif not execute("SELECT 1 FROM results WHERE row = ?", (row,)).fetchone():  # else its file is there
                lines.append((row, 1, status, *self._place(f"row-{row}", frames)))
        self._connection.executemany("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?)", lines)
        n_added = self._connection.total_changes - before
        added: dict[int, list[int]] = {}
        for each in results:
            first = self._firsts[bisect_right(self._firsts, each.row) - 1]
            counts = added.setdefault(first, [0, 0, 0])
            counts[bool(each.status)] += each.n_rows
            counts[2] += each.duration_us
        for first, (done, failed, duration_us) in added.items():
            if n_added < len(results):  # some were there: count anew
                known, ended = self.ranges[first], self.ended_rows(first)
                self._count(first, ended.count(ENDED_WELL) - known.done, ended.count(FAILED) - known.failed)
            else:
                self._count(first, done, failed, duration_us)
        if n_added:
            self._note_change()
        if self.marked:
            for each in results:
                self.marked.difference_update(range(each.row, each.row + each.n_rows))
            self._keep_marks()
        return n_added

    def reopen_failed(self, status: int | None = None) -> list[int]:
        """Forget how failed rows have ended, so that they run again. Return them.

        Args:
            status: only those that have ended so.
        """
        which = "status != 0" if status is None else f"status = {int(status)}"
        found = self._connection.execute(f"SELECT row FROM results WHERE {which} ORDER BY row")  # noqa: S608 - a number
        rows = [row for (row,) in found]
        self._connection.execute(f"DELETE FROM results WHERE {which}")  # noqa: S608
        for first, count in Counter(self._firsts[bisect_right(self._firsts, row) - 1] for row in rows).items():
            self._count(first, 0, -count)
        return rows

    def move(self, state: str, reason: str = "") -> None:
        """Change the state of the job."""
        self._set("state", state)
        self._set("reason", reason)
        self._note_change()
        self.state, self.reason = state, reason

    def _note_change(self) -> None:
        self.changed = time.time()
        self._set("changed", self.changed)

    def _set(self, key: str, value: Any) -> None:
        self._connection.execute("UPDATE job SET value = ? WHERE key = ?", (value, key))

    def _count(self, first: int, done: int, failed: int, duration_us: int = 0) -> None:
        known = self.ranges[first]
        new = known._replace(
            done=known.done + done, failed=known.failed + failed, duration_us=known.duration_us + duration_us
        )
        self.ranges[first] = new
        self.done += done
        self.failed += failed
        counts = (first, new.done, new.failed, new.duration_us)
        self._connection.execute("INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?)", counts)

    def _place(self, name: str, frames: Frames) -> tuple[bytes, bytes | None]:
        """Return sizes and value for the database; a value that is too large for it goes to a file."""
        sizes = pack_sizes(frames)
        if sum(unpack_sizes(sizes)) <= IN_DATABASE_BYTES:
            return sizes, b"".join(frames)
        self._files.write(name, frames)
        self._must_sync = True
        self._files_bytes -= self._sizes.get(name, 0)
        self._sizes[name] = sum(unpack_sizes(sizes))
        self._files_bytes += self._sizes[name]
        return sizes, None

    # Reading

    def _read_ranges(self) -> None:
        read = (
            "SELECT ranges.first, count, digest, coalesce(done, 0), coalesce(failed, 0), coalesce(duration_us, 0) "
            "FROM ranges LEFT JOIN counts ON ranges.first = counts.first ORDER BY ranges.first"
        )
        self.ranges = {row[0]: Range(*row) for row in self._connection.execute(read)}
        self._firsts = list(self.ranges)
        self.rows = sum(each.n_rows for each in self.ranges.values())
        self.done = sum(each.done for each in self.ranges.values())
        self.failed = sum(each.failed for each in self.ranges.values())

    def objects(self) -> list[Object]:
        """Return the functions and values of the job."""
        found = self._connection.execute("SELECT id, kind, name, sizes, value FROM objects")
        return [Object(row[0], row[1], row[2], self._take(f"object-{row[0].hex()}", row[3], row[4])) for row in found]

    def object_ids(self) -> set[bytes]:
        """Return which functions and values are there."""
        return {row[0] for row in self._connection.execute("SELECT id FROM objects")}

    def rows_of(self, first: int) -> Arguments:
        """Return the arguments of the rows of a range."""
        found = self._connection.execute("SELECT sizes, value FROM ranges WHERE first = ?", (first,)).fetchone()
        (block,) = self._take(f"rows-{first}", *found)
        return Arguments(block, self.ranges[first].n_rows)

    def ended_rows(self, first: int) -> bytearray:
        """Return for each row of a range whether it has ended, and how."""
        states = bytearray(self.ranges[first].n_rows)
        found = "SELECT row, count, status FROM results WHERE row >= ? AND row < ?"
        for row, count, status in self._connection.execute(found, (first, first + len(states))):
            states[row - first : row - first + count] = bytes((FAILED if status else ENDED_WELL,)) * count
        return states

    def results(self, first: int, count: int, most_bytes: int) -> list[Result]:
        """Return how rows from `first` on have ended, those that have; at least one of them, and no more than so many
        rows, nor many more bytes.
        """
        query = (
            f"SELECT {COLUMNS} FROM results "  # noqa: S608 - a constant
            "WHERE row >= coalesce((SELECT max(row) FROM results WHERE row <= :first), :first) AND row < :end "
            "ORDER BY row"
        )
        end = first + count
        found = self._connection.execute(query, {"first": first, "end": end})
        return list(self._read_results(found, most_bytes, first, end))

    def results_of(self, rows: Sequence[int], most_bytes: int) -> tuple[list[Result], int]:
        """Return how these rows have ended, those that have, neighbours together; the first ones if they are too many
        bytes. And how many of them were looked at.
        """
        found: list[Result] = []
        n_read = at = 0
        while at < len(rows) and n_read < most_bytes:
            end = at + 1
            while end < len(rows) and rows[end] == rows[end - 1] + 1:
                end += 1
            some = self.results(rows[at], end - at, most_bytes - n_read)
            n_read += n_bytes(some)
            found += some
            at = end if n_read < most_bytes else at + some[-1].row + some[-1].n_rows - rows[at]
        return found, at

    def failures(self, first: int = 0, most: int = 1000) -> list[Result]:
        """Return the failed rows from `first` on."""
        query = f"SELECT {COLUMNS} FROM results WHERE status != 0 AND row >= ? ORDER BY row LIMIT ?"  # noqa: S608
        return list(self._read_results(self._connection.execute(query, (first, most)), 2**62))

    def arguments_of(self, row: int) -> Row:
        """Return the arguments of one row."""
        first = self._firsts[bisect_right(self._firsts, row) - 1]
        return self.rows_of(first).one(row - first)

    def _read_first_failures(self) -> list[Result]:
        """Return some of the rows that have failed: the first ones. No range without any is looked into."""
        query = f"SELECT {COLUMNS} FROM results WHERE row >= ? AND row < ? AND status != 0 ORDER BY row"  # noqa: S608
        found: list[Result] = []
        for each in self.ranges.values() if self.failed else ():
            if each.failed and len(found) < FAILURES_SHOWN:
                rows = self._connection.execute(query, (each.first, each.first + each.n_rows))
                found += self._read_results(rows, 2**62)
        return found[:FAILURES_SHOWN]

    def _read_results(
        self, found: Iterable[tuple[int, int, int, Any, Any]], most_bytes: int, first: int = 0, end: int = 2**62
    ) -> Iterator[Result]:
        """Go through what was found, as far as it is of the rows from `first` to `end`."""
        n_read = 0
        for row, count, status, sizes, value in found:
            begin, stop = max(row, first), min(row + count, end)
            if begin >= stop:
                continue
            frames: Frames = (value,) if sizes is None else self._take(f"row-{row}", sizes, value)
            if stop - begin < count:
                packed = Packed(value, count)
                at = begin - row
                frames = (packed.one(at) if stop - begin == 1 else packed.cut(at, stop - row),)
            result = Result(begin, status, frames, stop - begin)
            yield result
            n_read += n_bytes((result,))
            if n_read >= most_bytes:
                return

    def _take(self, name: str, sizes: bytes, value: bytes | None) -> Frames:
        whole = self._files.read(name) if value is None else value
        known = unpack_sizes(sizes)
        if len(whole) != sum(known):
            raise RecordError(f"{self.folder / VALUES / name} has {len(whole)} bytes of {sum(known)}")
        return (whole,) if len(known) == 1 else tuple(take(memoryview(whole), 0, known))

    @property
    def duration_us(self) -> int:
        """How long the runs took by which rows have ended."""
        return sum(each.duration_us for each in self.ranges.values())

    @property
    def size_bytes(self) -> int:
        """What it takes on disk."""
        database = sum(
            os.stat(file).st_size if os.path.exists(file) else 0  # noqa: PTH110, PTH116 - called for each group
            for file in (f"{self.folder}/{DATABASE}", f"{self.folder}/{DATABASE}-wal")
        )
        return database + self._files_bytes

    def summary(self) -> Summary:
        """Return the job in a line."""
        counts = (self.rows, self.done, self.failed, self.size_bytes, self.changed)
        return Summary(self.terms, self.state, self.reason, self.is_sealed, *counts, self.first_failures)

    def problems(self) -> list[str]:
        """Return a sentence for each thing that is not as it should be. Nothing is changed.

        Raises:
            sqlite3.Error: if the database cannot be read to its end.
        """
        found = [f"the database: {row[0]}" for row in self._connection.execute("PRAGMA integrity_check(20)")]
        found = [each for each in found if each != "the database: ok"]
        expected = 0
        for each in self.ranges.values():
            if each.first != expected:
                found.append(f"rows {expected} to {each.first - 1} are missing")
            expected = each.first + each.n_rows
            ended = self.ended_rows(each.first)
            if (ended.count(ENDED_WELL), ended.count(FAILED)) != (each.done, each.failed):
                found.append(f"rows {each.first} to {expected - 1}: the results are not as many as counted")
        for name, sizes in self._files_named():
            if self._sizes.get(name) != sum(unpack_sizes(sizes)):
                has = self._sizes.get(name, "no file, so none")
                found.append(f"{VALUES}/{name}: it should have {sum(unpack_sizes(sizes))} bytes, and has {has}")
        return found

    def _files_named(self) -> Iterator[tuple[str, bytes]]:
        """Go through all files that the database names."""
        execute = self._connection.execute
        for key, sizes in execute("SELECT id, sizes FROM objects WHERE value IS NULL"):
            yield f"object-{key.hex()}", sizes
        for key, sizes in execute("SELECT first, sizes FROM ranges WHERE value IS NULL"):
            yield f"rows-{key}", sizes
        for key, sizes in execute("SELECT row, sizes FROM results WHERE value IS NULL"):
            yield f"row-{key}", sizes


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def n_bytes(results: Sequence[Result]) -> int:
    """Return how many bytes the values of results have."""
    return sum(len(frame) for result in results for frame in result.frames)
