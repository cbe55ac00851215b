"""Record: one job on disk: its terms, the arguments of its rows in ranges, and the result of each row that has ended.

Written to by one thread, in groups: `begin`, changes, `commit`. What `commit` has returned from survives a power cut.
Read by that thread, and by `scaler_jobs --file`. What is damaged is remembered in the group that finds it. Must never:
unpickle, or delete what it cannot read.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaler.jobs import schema, versions
from scaler.jobs.checksums import Damage, DamagedError
from scaler.jobs.facts import Facts
from scaler.jobs.objects import FUNCTION, Objects
from scaler.jobs.ranges import NOT_COMPARED, NewRange, Ranges, RowsDiffer
from scaler.jobs.results import FAILURES_SHOWN, Results
from scaler.jobs.schema import RecordError
from scaler.jobs.terms import (
    CANCELED,
    DAMAGED,
    DONE,
    ENDED_WELL,
    FAILED,
    NO_WORKER,
    OPEN,
    STATES,
    STOPPED,
    JobTerms,
    Object,
    Range,
    Result,
    Summary,
    n_bytes,
)
from scaler.jobs.value_files import ValueFiles
from scaler.jobs.values import Arguments, Row
from scaler.jobs.versions import Versions
from scaler.jobs.witness import Witness

__all__ = [
    "CANCELED", "DAMAGED", "DATABASE", "DONE", "ENDED_WELL", "FAILED", "FAILURES_SHOWN", "NOT_COMPARED", "OPEN", "PART",
    "STATES", "STOPPED", "VALUES", "DamagedError", "JobRecord", "JobTerms", "Object", "Range", "RecordError", "Result",
    "RowsDiffer", "Summary", "n_bytes", "sync_folder",
]  # fmt: skip

DATABASE, VALUES = "job.sqlite", "values"
"""What is in the folder of a job, beside the witness."""

PART = ".part-"
"""So the names of folders begin that are being made or removed."""

REQUESTS = 16
"""So many requests that have changed the record are remembered."""


class JobRecord:
    """The record of one job. Made by `create` and `open`."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, writing: bool) -> None:
        self.folder = folder
        self._connection = connection
        self._witness = Witness(folder)  # before the database is read, which another process may write meanwhile
        self._files = ValueFiles(folder / VALUES)
        self._place = os.stat(folder / DATABASE)  # noqa: PTH116 - as in `commit`
        self._changes_before = self._failed_before = 0
        self._facts = Facts(connection)
        self._versions = Versions(connection)
        self._damage = Damage(self._facts)
        self._ranges = Ranges(connection, self._files, self._damage)
        self._results = Results(connection, self._files, self._ranges, writing)
        self._objects = Objects(connection, self._files, self._damage)
        self._read_facts()
        self._examine(writing)
        self.first_failures = self._read_first_failures()
        """of the rows that had failed when it was opened"""

    @classmethod
    def create(cls, folder: Path, terms: JobTerms) -> JobRecord:
        """Make the record of a new job in a folder that is not there yet. It is on disk when this returns.

        It is made under another name first: a folder of a job holds a whole one.
        """
        part = cls.make(folder, terms)
        try:
            part.rename(folder)
        except BaseException:  # raised again
            shutil.rmtree(part, ignore_errors=True)
            raise
        sync_folder(folder.parent)
        return cls.open(folder)

    @classmethod
    def make(cls, folder: Path, terms: JobTerms) -> Path:
        """Make the record of a new job beside the folder that it is to have. Return where it is."""
        part = folder.with_name(f"{PART}{os.urandom(8).hex()}")
        try:
            cls._make(part, terms)
        except BaseException:  # raised again
            shutil.rmtree(part, ignore_errors=True)
            raise
        return part

    @staticmethod
    def _make(folder: Path, terms: JobTerms) -> None:
        for each in (folder, folder / VALUES):
            each.mkdir(mode=0o700)
            each.chmod(0o700)  # whatever the umask
        connection = schema.create(folder / DATABASE)
        connection.execute("BEGIN")
        versions.write(connection, replace(terms, version=0))
        facts = Facts(connection)
        for key, value in (("state", OPEN), ("reason", ""), ("is_sealed", 0), ("changed", terms.created)):
            facts.set(key, value)
        connection.execute("COMMIT")
        connection.close()
        sync_folder(folder)

    @classmethod
    def open(cls, folder: Path, *, writing: bool = True) -> JobRecord:
        """Open a record that is there. Rows whose files are missing or cut fail, in it, too, if it is to be written.

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
            return cls(folder, connection, writing)
        except BaseException:  # raised again
            connection.close()
            raise

    def close(self) -> None:
        """Close the files. What was not committed is not kept."""
        self._connection.close()
        self._files.close()
        self._witness.close()

    # Its state in memory

    def _read_facts(self) -> None:
        get = self._facts.get
        self.state, self.is_sealed = get("state", STOPPED), bool(get("is_sealed", 0))
        self.reason = get("reason", "what was noted of its state is damaged; retry() has it go on")
        self.changed = float(get("changed", 0.0))
        self.lost: str = get("lost", "")
        """what is missing that was acknowledged, as a sentence, until `forget_lost`"""
        marked = get("marked", b"")
        self.marked: set[int] = set(struct.unpack(f"<{len(marked) // 8}Q", marked))

    def _examine(self, writing: bool) -> None:
        """See by names, sizes and numbers alone what is missing of what was written, and remember it."""
        if writing:
            self.begin()
        reasons = self._why_lost()
        for first in [each.first for each in self.ranges.values() if each.n_open not in (0, each.n_rows)]:
            if not self._results.is_counted(first):
                reasons.append(f"the results of the rows from {first} on are not as many as were counted")
                self._results.count_anew(first) if writing else None
        self._results.fail_without_files()
        self._results.became_failed.clear()  # who opens a record has not counted its rows yet
        named = (*self._objects.files(), *self._ranges.files())
        self._damage.note(name for name, sizes in named if self._files.why_damaged(name, sizes))
        if reasons:
            self.lost = "; ".join(each for each in (self.lost, *reasons) if each)
            self._facts.set("lost", self.lost)
        if writing:
            self.commit()

    def _why_lost(self) -> list[str]:
        """Return what was acknowledged and is not in the database: nothing, if all is well."""
        seen, known = self._witness.commits(self.record_id), self._facts.get("commits", 0)
        damaged = self._facts.damaged
        if damaged:
            self._facts.mend(state=self.state, reason=self.reason)
            return [f"what was noted of its state is damaged ({', '.join(damaged)})"]
        if seen <= known:
            return []
        sentence = (
            f"the last {seen - known} groups of changes are missing, although they were acknowledged: the log of the "
            f"database ({DATABASE}-wal) was lost or damaged, and rows whose results it had run again"
        )
        return [sentence]

    # Changes

    def begin(self) -> None:
        """Begin a group of changes."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._changes_before = self._connection.total_changes
        self._failed_before = len(self._results.became_failed)

    def commit(self) -> None:
        """Have all changes since `begin` on disk.

        Raises:
            sqlite3.Error, OSError: if that failed, or the folder is gone; `roll_back` is next.
        """
        self._files.sync()
        self._check_place()
        n_commits = 0
        if self._connection.total_changes != self._changes_before:
            n_commits = self._facts.get("commits", 0) + 1
            self._facts.set("commits", n_commits)
        self._connection.execute("COMMIT")
        if n_commits:
            self._files.settle(is_kept=True)
            self._witness.write(self.record_id, n_commits)

    def _check_place(self) -> None:
        """Raise `OSError` if the folder is not where it was: what is written there is gone."""
        try:
            now = os.stat(f"{self.folder}/{DATABASE}")  # noqa: PTH116 - called for each group
        except FileNotFoundError:
            now = None
        if now is None or (now.st_ino, now.st_dev) != (self._place.st_ino, self._place.st_dev):
            raise OSError(f"the folder of the job is gone: {self.folder} was removed or moved while the job was open")

    def roll_back(self) -> None:
        """Forget all changes since `begin`."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._files.settle(is_kept=False)
        del self._results.became_failed[self._failed_before :]
        for each in (self._facts, self._versions, self._damage, self._ranges):
            each.read()
        self._read_facts()
        self.first_failures = self._read_first_failures()

    def checkpoint(self) -> None:
        """Move what the log has to its place, and give its room back. Outside of a group."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def salvage(self) -> bool:
        """Have the rows fail whose results lie in damaged pages, so that the others can be read and written. Return
        whether there are any.

        Raises:
            sqlite3.Error, OSError: if that failed; the record is as it was.
        """
        unreadable = self._results.unreadable()
        if not unreadable:
            return False
        self.begin()
        try:
            self._results.salvage(unreadable)
            self.commit()
        except BaseException:  # raised again
            self.roll_back()
            raise
        return True

    def add_object(self, new: Object) -> None:
        """Keep a function or a value of rows; a damaged one is written anew.

        The first function that comes is that of all rows, whoever has sent it, unless the one that is named is there.
        """
        named = self.terms.function_id
        ids = self._objects.ids()
        self._objects.add(new)
        if new.kind == FUNCTION and named not in ids and named != new.object_id:
            self._objects.drop(named)  # if it is there, it is damaged
            self._versions.set_function(new.object_id)

    def add_version(self, terms: JobTerms) -> None:
        """Go on with other terms. Their function is the first one that is added from now on, unless it is there."""
        self._versions.add(terms)
        self._note_change()

    def add_range(self, first: int, count: int, digest: bytes, row_digests: bytes, block: Any) -> int:
        """Keep the arguments of the next rows. Return how many of them were not known.

        Raises:
            RowsDiffer: if known rows are others, or no further ones may come.
            ValueError: if they are not the next rows.
        """
        n_new = self._ranges.add(NewRange(first, count, digest, row_digests, block), is_sealed=self.is_sealed)
        if n_new:
            self._note_change()
        return n_new

    def replace_range(
        self, first: int, digest: bytes, row_digests: bytes, block: Any, keep_uncompared: bool, at_most_once: bool
    ) -> list[int]:
        """Keep other arguments for the rows of a range. Return the rows that had ended and run again.

        Args:
            keep_uncompared: whether rows that cannot be compared count as the same.
            at_most_once: whether rows that may have begun never run again: those of them that had ended have failed.

        Raises:
            ValueError: if there is no such range.
        """
        if first not in self.ranges:
            raise ValueError(f"the job has no range from row {first} on")
        new = NewRange(first, self.ranges[first].n_rows, digest, row_digests, block)
        changed = self._ranges.replace(new, keep_uncompared=keep_uncompared)
        ended = self._results.ended_rows(first)
        again = [row for row in changed if ended[row - first]]
        if at_most_once:
            free = self._results.with_status(first, NO_WORKER)
            sentence = "its arguments have changed since it began, and with the option at_most_once it never runs again"
            self._results.fail(
                {row: Result(row, DAMAGED, (f"row {row}: {sentence}".encode(),)) for row in again if row not in free}
            )
            again = [row for row in again if row in free]
        self._results.drop(again)
        self._note_change()
        return again

    def truncate(self, n_rows: int) -> None:
        """Forget the rows from a number on, and how they have ended.

        Raises:
            DamagedError: if arguments that must be cut are damaged.
        """
        part = self._ranges.part_until(n_rows)
        self._results.drop(range(n_rows, self.rows))
        self._ranges.truncate(n_rows, part)
        self.mark((), [row for row in self.marked if row >= n_rows])
        self._note_change()

    def seal(self, n_rows: int) -> None:
        """No further rows come. Raises `RowsDiffer` if the job has another number of them."""
        if n_rows != self.rows:
            raise RowsDiffer(min(n_rows, self.rows), f"the job has {self.rows} rows, and not {n_rows}")
        self.is_sealed = True
        self._facts.set("is_sealed", 1)

    def unseal(self) -> None:
        """Further rows may come."""
        self.is_sealed = False
        self._facts.set("is_sealed", 0)

    def mark(self, rows: Iterable[int], not_begun: Iterable[int] = ()) -> None:
        """Note that these rows may begin from now on, and others have not. A row that ends is marked no longer."""
        self.marked.update(rows)
        self.marked.difference_update(not_begun)
        self._facts.set("marked", struct.pack(f"<{len(self.marked)}Q", *sorted(self.marked)))

    def add_results(self, results: Sequence[Result]) -> int:
        """Keep how rows have ended. Return how many of these had not ended before."""
        n_added = self._results.add(results, self.terms.version)
        if n_added:
            self._note_change()
        if self.marked:
            self.mark((), (row for each in results for row in range(each.row, each.row + each.n_rows)))
        return n_added

    def reopen_failed(self, status: int | None = None) -> list[int]:
        """Forget how failed rows have ended, so that they run again. Return them.

        Args:
            status: only those that have ended so.
        """
        return self._results.reopen_failed(status)

    def move(self, state: str, reason: str = "") -> None:
        """Change the state of the job."""
        self.state, self.reason = state, reason
        self._facts.set("state", state)
        self._facts.set("reason", reason)
        self._note_change()

    def _note_change(self) -> None:
        self.changed = time.time()
        self._facts.set("changed", self.changed)

    def note_request(self, token: bytes) -> None:
        """Remember a request that has changed the record, to know it if it is asked again."""
        self._facts.set("requests", json.dumps([*self._requests(), token.hex()][-REQUESTS:]))

    def has_done(self, token: bytes) -> bool:
        """Return whether a request is one of the last that have changed the record."""
        return token.hex() in self._requests()

    def _requests(self) -> list[str]:
        found: list[str] = json.loads(self._facts.get("requests", "[]"))
        return found

    def forget_lost(self) -> None:
        """Name no longer what is missing: it has been dealt with."""
        self.lost = ""
        self._facts.set("lost", "")

    def take_damaged(self) -> list[Result]:
        """Return the rows that had ended well and have become failed ones since the last call, for who counts them."""
        taken, self._results.became_failed = self._results.became_failed, []
        return taken

    # Reading

    @property
    def record_id(self) -> bytes:
        """Names this record for ever."""
        return self._versions.all[0].prefix

    @property
    def terms(self) -> JobTerms:
        """Those of the latest version."""
        return self._versions.latest

    @property
    def versions(self) -> list[JobTerms]:
        """All terms that the job has had, those of now last."""
        return self._versions.all

    def belong_to(self, owner: str) -> None:
        """Name another owner in all terms than the one who has made it."""
        self._versions.belong_to(owner)

    @property
    def ranges(self) -> dict[int, Range]:
        """All ranges, by their first rows."""
        return self._ranges.by_first

    @property
    def rows(self) -> int:
        return self._ranges.rows

    @property
    def done(self) -> int:
        return self._ranges.done

    @property
    def failed(self) -> int:
        return self._ranges.failed

    @property
    def damaged(self) -> set[str]:
        """The names of the arguments and functions that are damaged, until they are written anew."""
        return self._damage.names

    def objects(self) -> list[Object]:
        """Return the functions and values of the job. Raises `DamagedError`."""
        return self._objects.read()

    def object_ids(self) -> set[bytes]:
        """Return which functions and values are there, without damaged ones."""
        return self._objects.ids()

    def rows_of(self, first: int) -> Arguments:
        """Return the arguments of the rows of a range. Raises `DamagedError`."""
        return self._ranges.arguments(first)

    def row_digests(self, first: int) -> bytes:
        """Return the digests of the rows of a range, 8 bytes each; of damaged ones: `NOT_COMPARED`."""
        return self._ranges.digests(first)

    def ended_rows(self, first: int) -> bytearray:
        """Return for each row of a range whether it has ended, and how."""
        return self._results.ended_rows(first)

    def counts_by_version(self) -> dict[int, int]:
        """Return how many rows have ended with each version."""
        if len(self._versions.all) == 1:
            return {0: self.done + self.failed}
        return self._results.by_version()

    def results(self, first: int, count: int, most_bytes: int) -> list[Result]:
        """Return how rows from `first` on have ended, those that have; at least one of them, and no more than so many
        rows, nor many more bytes. A row whose result is damaged or missing has failed.
        """
        return self._results.read(first, count, most_bytes)

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
        return self._results.failures(first, 2**62, most)

    def arguments_of(self, row: int) -> Row:
        """Return the arguments of one row. Raises `DamagedError`."""
        first = self._ranges.first_of(row)
        return self.rows_of(first).one(row - first)

    def _read_first_failures(self) -> list[Result]:
        """Return some of the rows that have failed: the first ones. No range without any is looked into."""
        found: list[Result] = []
        for each in self.ranges.values() if self.failed else ():
            if each.failed and len(found) < FAILURES_SHOWN:
                found += self._results.failures(each.first, each.first + each.n_rows, FAILURES_SHOWN - len(found))
        return found

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
        return database + self._files.total_bytes

    def summary(self) -> Summary:
        """Return the job in a line."""
        counts = (self.rows, self.done, self.failed, self.size_bytes, self.changed)
        return Summary(self.terms, self.state, self.reason, self.is_sealed, *counts, self.first_failures)

    def problems(self) -> list[str]:
        """Return a sentence for each thing that is not as it should be. All values are read, and nothing is changed.

        Raises:
            sqlite3.Error: if the database cannot be read to its end.
        """
        found = [f"the database: {row[0]}" for row in self._connection.execute("PRAGMA integrity_check(20)")]
        found = [each for each in found if each != "the database: ok"]
        found += [self.lost] if self.lost else []
        parts = (self._objects, self._ranges, self._results)
        named = [each for part in parts for each in part.files()]
        bad_files = {name: why for name, sizes in named if (why := self._files.why_damaged(name, sizes))}
        found += [f"{VALUES}/{name}: {why}" for name, why in bad_files.items()]
        for name, why in (each for part in parts for each in part.problems()):
            if name not in bad_files:
                found.append(f"{VALUES}/{name}: {why}" if name in self._files.sizes else f"the database: {name}: {why}")
        return found + self._ranges.gaps() + self._results.miscounts()


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
