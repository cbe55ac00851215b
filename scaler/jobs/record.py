"""Record: one job on disk: its terms, the arguments of its rows in ranges, and the results of ended rows.

Written by the job writer's thread in groups: `begin`, changes, `commit`. A committed group survives a power cut. Read
by that thread, and by `scaler_jobs --file`. Found damage is recorded in the present group; damaged data is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from scaler.jobs.tables import schema, versions
from scaler.jobs.tables.checksums import DamagedError, DamagedValues
from scaler.jobs.tables.facts import Facts
from scaler.jobs.tables.objects import FUNCTION, JobObjects
from scaler.jobs.tables.places import FailurePlaces
from scaler.jobs.tables.ranges import DIGEST_BYTES, NOT_COMPARED, JobRanges, RowsDiffer, SubmittedRange
from scaler.jobs.tables.reopened import Reopened
from scaler.jobs.tables.results import FAILURES_SHOWN, Results
from scaler.jobs.tables.schema import RecordError
from scaler.jobs.tables.versions import JobVersions
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
    JobObject,
    JobSummary,
    JobTerms,
    RowRange,
    RowResult,
    n_bytes,
)
from scaler.jobs.value_files import ValueFiles
from scaler.jobs.values import Arguments, RowArguments
from scaler.jobs.witness import Witness
from scaler.keys.private_files import check_own, new_private_folder
from scaler.texts import NAME_CHARACTERS, escaped, printable

__all__ = [
    "CANCELED",
    "DAMAGED",
    "DATABASE",
    "DONE",
    "ENDED_WELL",
    "FAILED",
    "FAILURES_SHOWN",
    "NOT_COMPARED",
    "OPEN",
    "PART",
    "STATES",
    "STOPPED",
    "VALUES",
    "DamagedError",
    "JobObject",
    "JobRecord",
    "JobSummary",
    "JobTerms",
    "RecordError",
    "RowRange",
    "RowResult",
    "RowsDiffer",
    "n_bytes",
    "sync_folder",
]  # fmt: skip

DATABASE, VALUES = "job.sqlite", "values"
"""Two names in the folder of a job: the name of its database, and the name of its folder of value files."""

PART = ".part-"
"""Prefix of the names of folders that are being created or removed."""

ONCE = ", and has the option at_most_once"

REQUESTS = 16
"""The number of requests that a record remembers: the latest ones that have changed the record."""


class JobRecord:
    """Reads and changes the record of one job. Made by `create` and `open`."""

    def __init__(self, folder: Path, connection: schema.RecordConnection, writing: bool) -> None:
        self.folder = folder
        self._connection = connection
        self._witness = Witness(folder)  # read before the database, which another process may write meanwhile
        self._files = ValueFiles(folder / VALUES)
        self._place = os.stat(folder / DATABASE)  # noqa: PTH116 - as in `commit`
        self._changes_before = self._failed_before = 0
        self._facts = Facts(connection, writing)
        self._versions = JobVersions(connection)
        self._damage = DamagedValues(self._facts)
        self._ranges = JobRanges(connection, self._files, self._damage)
        self._results = Results(connection, self._files, self._ranges, FailurePlaces(self._facts), writing)
        self._objects = JobObjects(connection, self._files, self._damage)
        self._reopened = Reopened(connection)
        self._read_facts()
        self._seen = self._commits_seen()
        self._check_rows()
        self._examine(writing)
        self.first_failures = self._read_first_failures()
        """the failures of the first failed rows at the time when the record was opened"""

    @classmethod
    def create(cls, folder: Path, terms: JobTerms) -> JobRecord:
        """Create the record of a new job in a temporary folder, which is renamed when the record is complete."""
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
        """Make the record of a new job in a temporary folder beside the final folder. Return the temporary folder."""
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
            new_private_folder(each)
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
        """Open an existing record. If opened for writing, rows with missing or truncated files become failed.

        A record that is opened for reading shows its state at one moment, until `renew` is called.

        Raises:
            RecordError: if the folder holds no complete record of this version, or its content cannot be a record.
            ConfigError: if a file or folder of the record is a link, or belongs to another user.
            sqlite3.Error: if the database is damaged.
            OSError: if the record cannot be read.
        """
        file = folder / DATABASE
        check_folder(folder)
        connection = schema.open_writing(file) if writing else schema.open_reading(file)
        try:
            if not writing:
                connection.execute("BEGIN")
            record = cls(folder, connection, writing)
        except sqlite3.Error as error:
            connection.close()
            raise connection.explain(error) from None
        except BaseException:  # raised again
            connection.close()
            raise
        if writing:
            connection.lift_limits()
        return record

    def trust(self) -> None:
        """Lift the limits of reading, which protect against forged records."""
        self._connection.lift_limits()

    def rest(self) -> None:
        """End the read transaction, so that a writing program can truncate the log. `renew` starts the next one."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def renew(self) -> bool:
        """Let later reads see the present database. Return False if the record has changed and must be opened again."""
        self.rest()
        self._connection.execute("BEGIN")
        return self._commits_seen() == self._seen and self.is_in_place()

    def _commits_seen(self) -> int:
        """Return a number that changes with each commit of another program."""
        self._connection.execute("SELECT 1 FROM job LIMIT 1").fetchall()
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the files, and drop uncommitted changes."""
        self._connection.close()
        self._files.close()
        self._witness.close()

    # Its state in memory

    def _read_facts(self) -> None:
        get = self._facts.get
        self.state, self.is_sealed = get("state", STOPPED), bool(get("is_sealed", 0))
        self.reason = escaped(get("reason", "its stored state is damaged; retry() resumes it"))
        self.changed = float(get("changed", 0.0))
        self.lost = escaped(get("lost", ""))
        """a sentence about acknowledged changes that are missing, until `forget_lost` is called; else empty"""
        if self.state not in STATES:
            raise RecordError(f"its state is unknown: {printable(self.state, NAME_CHARACTERS)}")
        if not isfinite(self.changed):
            raise RecordError("the time of its last change is not a finite number")
        marked = get("marked", b"")
        self.marked: set[int] = set(struct.unpack(f"<{len(marked) // 8}Q", marked))

    def _check_rows(self) -> None:
        """Raise `RecordError` if the record claims more rows than a database of its size can hold."""
        most = schema.size_of(self.folder / DATABASE)
        if DIGEST_BYTES * self.rows > most:
            raise RecordError(f"it claims {self.rows:,} rows, but its database has room for {most // DIGEST_BYTES:,}")

    def _examine(self, writing: bool) -> None:
        """Find missing data by a comparison of names, sizes and counts only, and record which data is missing."""
        if writing:
            self.begin()
        reasons = self._why_lost()
        for first in [each.first for each in self.ranges.values() if each.n_open not in (0, each.n_rows)]:
            if not self._results.is_counted(first):
                reasons.append(f"the results of the range from row {first} on do not match their count")
                self._results.recount(first) if writing else None
        self._results.fail_without_files()
        self._results.became_failed.clear()  # these are part of the counts that the caller reads after opening
        named = (*self._objects.files(), *self._ranges.files())
        self._damage.note(name for name, sizes in named if self._files.why_damaged(name, sizes))
        if reasons:
            self.lost = "; ".join(each for each in (self.lost, *reasons) if each)
            self._facts.set("lost", self.lost)
        if writing:
            self.commit()

    def _why_lost(self) -> list[str]:
        """Return sentences about acknowledged changes that are missing from the database."""
        seen, known = self._witness.commits(self.record_id), self._facts.get("commits", 0)
        damaged = self._facts.damaged
        if damaged:
            self._facts.mend(state=self.state, reason=self.reason)
            return [f"its stored state is damaged ({printable(', '.join(map(str, damaged)), NAME_CHARACTERS)})"]
        if seen <= known:
            return []
        sentence = (
            f"the last {seen - known} groups of changes are missing, although they were acknowledged: the log of the "
            f"database ({DATABASE}-wal) was lost or damaged; rows whose results were only in the log run again"
        )
        return [sentence]

    # Changes

    def begin(self) -> None:
        """Start a group of changes."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._changes_before = self._connection.total_changes
        self._failed_before = len(self._results.became_failed)

    def commit(self) -> None:
        """Write all changes since `begin` to disk.

        Raises:
            sqlite3.Error, OSError: if writing fails, or the folder is missing. The caller must then call `roll_back`.
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
        """Raise `OSError` if the folder was removed or moved, because changes written to it would be lost."""
        if not self.is_in_place():
            raise OSError(f"the folder of the job is gone: {self.folder} was removed or moved while the job was open")

    def is_in_place(self) -> bool:
        """Return whether the folder was neither removed nor moved since the record was opened."""
        try:
            now = os.stat(f"{self.folder}/{DATABASE}")  # noqa: PTH116 - called for each group
        except FileNotFoundError:
            return False
        return (now.st_ino, now.st_dev) == (self._place.st_ino, self._place.st_dev)

    def roll_back(self) -> None:
        """Drop all changes since `begin`."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._files.settle(is_kept=False)
        del self._results.became_failed[self._failed_before :]
        for each in (self._facts, self._versions, self._damage, self._ranges, self._reopened):
            each.read()
        self._read_facts()
        self.first_failures = self._read_first_failures()

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database, and truncate the log. Not for use in a group."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def salvage(self) -> bool:
        """Fail the rows whose results are in damaged pages, so that other rows stay usable. Return whether a row
        failed.

        Raises:
            sqlite3.Error, OSError: if salvage fails; the record is then unchanged.
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

    def add_object(self, new: JobObject) -> None:
        """Store a function or a value of rows. Replace a damaged object that has the same id.

        The job's terms name a function. If that function is missing or damaged, the next function that any client adds
        replaces it.
        """
        named = self.terms.function_id
        ids = self._objects.ids()
        self._objects.add(new)
        if new.kind == FUNCTION and named not in ids and named != new.object_id:
            self._objects.drop(named)  # drops at most a damaged function
            self._versions.set_function(new.object_id)

    @property
    def reopened(self) -> set[int]:
        """The rows that run again after they had ended."""
        return self._reopened.rows

    def add_version(self, terms: JobTerms) -> None:
        """Add a version. If the function of the version is not stored yet, the next added function is used instead."""
        self._versions.add(terms)
        self._note_change(is_other_work=True)

    def keep_for(self, seconds: float) -> None:
        """Change how long the job is kept after its last change."""
        if seconds != self.terms.keep_seconds:
            self._versions.set_keep_seconds(seconds)

    def add_range(self, first: int, count: int, digest: bytes, row_digests: bytes, block: Any) -> int:
        """Store the arguments of the next rows. Return how many of the rows are new.

        Raises:
            RowsDiffer: if known rows have other arguments, a sealed job has fewer rows, or new rows leave a gap.
            ValueError: if the digests do not match the number of rows.
        """
        n_new = self._ranges.add(SubmittedRange(first, count, digest, row_digests, block), is_sealed=self.is_sealed)
        if n_new:
            self._note_change()
        return n_new

    def replace_range(
        self, first: int, digest: bytes, row_digests: bytes, block: Any, keep_uncompared: bool, at_most_once: bool
    ) -> list[int]:
        """Replace the arguments of the rows of a range. Return the ended rows that run again.

        Args:
            keep_uncompared: whether rows that cannot be compared count as unchanged.
            at_most_once: whether no row may run twice.

        Raises:
            RowsDiffer: if a changed row may have started and must not run again. Nothing is changed then.
            ValueError: if no range starts at `first`.
        """
        if first not in self.ranges:
            raise ValueError(f"the job has no range from row {first} on")
        new = SubmittedRange(first, self.ranges[first].n_rows, digest, row_digests, block)
        ended = self._results.ended_rows(first)
        free = self._results.with_status(first, NO_WORKER) if at_most_once else set()

        def check(changed: list[int]) -> None:
            started = [row for row in changed if row not in free and (ended[row - first] or row in self.marked)]
            if at_most_once and started:
                raise RowsDiffer(started[0], f"row {started[0]} has started with other arguments{ONCE}")

        changed = self._ranges.replace(new, check, keep_uncompared=keep_uncompared)
        again = [row for row in changed if ended[row - first]]
        self._results.drop(again)
        self._reopened.add(again)
        self._note_change(is_other_work=True)
        return again

    def _started_rows(self) -> set[int]:
        """Return the rows that may have started: rows that have ended at a worker, and rows that `mark` has marked."""
        started = set(self.marked)
        for first in self.ranges:
            ended, free = self._results.ended_rows(first), self._results.with_status(first, NO_WORKER)
            started.update(row for row, state in enumerate(ended, first) if state and row not in free)
        return started

    def truncate(self, n_rows: int, at_most_once: bool = False) -> None:
        """Drop the rows from `n_rows` on, with their results.

        Raises:
            RowsDiffer: with `at_most_once`, if a dropped row may have started: added again, it would run twice.
            DamagedError: if the range that must be divided is damaged.
        """
        if at_most_once:
            started = [row for row in self._started_rows() if row >= n_rows]
            if started:
                raise RowsDiffer(started[0], f"row {started[0]} would be dropped after it has started{ONCE}")
        part = self._ranges.part_until(n_rows)
        self._results.drop(range(n_rows, self.rows))
        self._ranges.truncate(n_rows, part)
        self._reopened.truncate(n_rows)
        self.mark((), [row for row in self.marked if row >= n_rows])
        self._note_change(is_other_work=True)

    def seal(self, n_rows: int) -> None:
        """Refuse further rows from now on. Raises `RowsDiffer` if the number of rows of the job is not `n_rows`."""
        if n_rows != self.rows:
            raise RowsDiffer(min(n_rows, self.rows), f"the job has {self.rows} rows, and not {n_rows}")
        self.is_sealed = True
        self._facts.set("is_sealed", 1)

    def unseal(self) -> None:
        """Accept further rows again, after `seal`."""
        self.is_sealed = False
        self._facts.set("is_sealed", 0)

    def mark(self, rows: Iterable[int], not_started: Iterable[int] = ()) -> None:
        """Mark rows of an at-most-once job as possibly started. `not_started`: rows whose marks are removed."""
        self.marked.update(rows)
        self.marked.difference_update(not_started)
        self._facts.set("marked", struct.pack(f"<{len(self.marked)}Q", *sorted(self.marked)))

    def add_results(self, results: Sequence[RowResult]) -> int:
        """Store results. Rows that have already ended keep their results. Return how many results were added."""
        n_added = self._results.add(results, self.terms.version)
        if n_added:
            self._note_change()
        if self.marked:
            self.mark((), (row for each in results for row in range(each.row, each.row + each.n_rows)))
        if self._reopened.rows:
            for each in results:
                self._reopened.end(each.row, each.n_rows)
        return n_added

    def has_failed(self, status: int) -> bool:
        """Return whether a row has failed with this `TaskStatus`."""
        return self._results.has_failed(status)

    def reopen_failed(self, status: int | None = None) -> list[int]:
        """Let failed rows run again: all, or only those with a `TaskStatus`. Return these rows."""
        rows = self._results.reopen_failed(status)
        self._reopened.add(rows)
        return rows

    def reopen_rows(self, rows: Iterable[int]) -> list[int]:
        """Let the given rows run again if they have failed. Return the rows that run again."""
        reopened = self._results.reopen_failed(None, {*rows})
        self._reopened.add(reopened)
        return reopened

    def drop_results(self) -> None:
        """Drop all results, and all marks of possibly started rows."""
        self._results.drop_all()
        self.marked = set()
        self._facts.set("marked", b"")
        self._reopened.truncate(0)
        self._note_change(is_other_work=True)

    def move(self, state: str, reason: str = "") -> None:
        """Change the state of the job."""
        self.state, self.reason = state, reason
        self._facts.set("state", state)
        self._facts.set("reason", reason)
        self._note_change()

    def _note_change(self, *, is_other_work: bool = False) -> None:
        self.changed = time.time()
        self._facts.set("changed", self.changed)
        if is_other_work:
            self._facts.set("revision", self.revision + 1)

    @property
    def revision(self) -> int:
        """The number of changes of the job's options or of stored rows. Clients send the number at which they compared
        the rows.
        """
        return int(self._facts.get("revision", 0))

    @property
    def is_compared(self) -> bool:
        """Whether the rows of this version must not change, because a later call of `map` or `start` needs them."""
        return 0 < self.terms.version == int(self._facts.get("compared", 0))

    def note_compared(self) -> None:
        """Record that a later call of `map` or `start` than the one that made this version needs its rows."""
        self._facts.set("compared", self.terms.version)

    def note_request(self, token: bytes) -> None:
        """Record that a request has changed the record, so that the request is recognized if it is sent again."""
        self._facts.set("requests", json.dumps([*self._requests(), token.hex()][-REQUESTS:]))

    def has_done(self, token: bytes) -> bool:
        """Return whether a request is among the latest requests that changed the record."""
        return token.hex() in self._requests()

    def _requests(self) -> list[str]:
        found: list[str] = json.loads(self._facts.get("requests", "[]"))
        return found

    def forget_lost(self) -> None:
        """Clear the sentence about missing changes, because the loss was handled."""
        self.lost = ""
        self._facts.set("lost", "")

    def take_damaged(self) -> list[RowResult]:
        """Return the failures of done rows whose results were found damaged since the last call, and forget them."""
        taken, self._results.became_failed = self._results.became_failed, []
        return taken

    # Reading

    @property
    def record_id(self) -> bytes:
        """The id of this record, which never changes."""
        return self._versions.all[0].prefix

    @property
    def terms(self) -> JobTerms:
        """The terms of the latest version."""
        return self._versions.latest

    @property
    def versions(self) -> list[JobTerms]:
        """The terms of all versions, the latest last."""
        return self._versions.all

    def belong_to(self, owner: str) -> None:
        """Replace the owner in the terms of all versions, in memory only."""
        self._versions.belong_to(owner)

    @property
    def ranges(self) -> dict[int, RowRange]:
        """All ranges, by first row."""
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
        """The names of damaged ranges and objects, until they are rewritten."""
        return self._damage.names

    def objects(self) -> list[JobObject]:
        """Return the functions and values of the job. Raises `DamagedError`."""
        return self._objects.read(self.terms.function_id)

    def object(self, object_id: bytes) -> JobObject:
        """Return a function or a value of the job. Raises `DamagedError` if the object is damaged or missing."""
        return self._objects.one(object_id)

    def object_ids(self) -> set[bytes]:
        """Return the ids of all undamaged functions and values."""
        return self._objects.ids()

    def rows_of(self, first: int) -> Arguments:
        """Return the arguments of the rows of a range. Raises `DamagedError`."""
        return self._ranges.arguments(first)

    def row_digests(self, first: int) -> bytes:
        """Return the digests of the rows of a range, 8 bytes each. Damaged digests are replaced by `NOT_COMPARED`."""
        return self._ranges.digests(first)

    def ended_rows(self, first: int) -> bytearray:
        """Return one byte for each row of a range: 0 for an open row, `ENDED_WELL` or `FAILED`."""
        return self._results.ended_rows(first)

    def counts_by_version(self) -> dict[int, int]:
        """Return the number of ended rows of each version."""
        if len(self._versions.all) == 1:
            return {0: self.done + self.failed}
        return self._results.by_version()

    def results(self, first: int, count: int, most_bytes: int) -> list[RowResult]:
        """Return results of ended rows among `count` rows from `first` on: one, or more up to about `most_bytes`."""
        return self._results.read(first, count, most_bytes)

    def results_of(self, rows: Iterable[range], most_bytes: int) -> tuple[list[RowResult], int]:
        """Return the results of given rows, up to about `most_bytes`, and the number of examined rows."""
        found: list[RowResult] = []
        n_read = n_rows = 0
        for each in rows:
            some = self.results(each.start, len(each), most_bytes - n_read)
            found += some
            n_read += n_bytes(some)
            if n_read >= most_bytes:  # later rows were not read
                return found, n_rows + some[-1].row + some[-1].n_rows - each.start
            n_rows += len(each)
        return found, n_rows

    def failures(self, first: int = 0, most: int = 1000) -> list[RowResult]:
        """Return the first failed rows from row `first` on, at most `most` rows."""
        return self._results.failures(first, 2**62, most)

    def arguments_of(self, row: int) -> RowArguments:
        """Return the arguments of one row. Raises `DamagedError`."""
        first = self._ranges.first_of(row)
        return self.rows_of(first).one(row - first)

    def version_of(self, row: int) -> int:
        """Return the version that ran a row; -1 if the row has not ended, or its result is damaged."""
        return self._results.version_of(row)

    def _read_first_failures(self) -> list[RowResult]:
        """Return the first failed rows. Ranges without failures are skipped."""
        found: list[RowResult] = []
        for each in self.ranges.values() if self.failed else ():
            if each.failed and len(found) < FAILURES_SHOWN:
                found += self._results.failures(each.first, each.first + each.n_rows, FAILURES_SHOWN - len(found))
        return found

    @property
    def duration_us(self) -> int:
        """The sum of the durations of all ended rows, in microseconds."""
        return sum(each.duration_us for each in self.ranges.values())

    @property
    def size_bytes(self) -> int:
        """Size of the job on disk."""
        database = sum(
            os.stat(file).st_size if os.path.exists(file) else 0  # noqa: PTH110, PTH116 - called for each group
            for file in (f"{self.folder}/{DATABASE}", f"{self.folder}/{DATABASE}-wal")
        )
        return database + self._files.total_bytes

    def summary(self) -> JobSummary:
        """Return a summary of the job."""
        counts = (self.rows, self.done, self.failed, self.size_bytes, self.changed)
        about = (self.terms, self.state, self.reason, self.is_sealed, *counts, self.first_failures)
        return JobSummary(*about, record_id=self.record_id)

    def problems(self) -> list[str]:
        """Read all values, change nothing, and return a sentence for each problem.

        Raises:
            sqlite3.Error: if the database cannot be read completely.
        """
        try:
            return self._problems()
        except sqlite3.Error as error:
            raise self._connection.explain(error) from None

    def _problems(self) -> list[str]:
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


def check_folder(folder: Path) -> None:
    """Check the folder of a job, the folder of its owner, and all files that are opened with the job.

    Raises:
        ConfigError: if a file or folder is a link, or belongs to another user.
        RecordError: if the folder holds no database of a job.
    """
    folders = (folder.parent, folder, folder / VALUES)
    for each in (*folders, *schema.files_of(folder / DATABASE)):
        with contextlib.suppress(FileNotFoundError):
            check_own(each, is_folder=each in folders)
    if not os.path.lexists(folder / DATABASE):
        raise RecordError(f"{folder} holds no job: it has no file {DATABASE}")
    if os.path.lexists(folder / f"{DATABASE}-journal"):  # it may name files for SQLite to delete
        raise RecordError(f"{folder} has a file {DATABASE}-journal, which does not belong to a job: remove that file")


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
