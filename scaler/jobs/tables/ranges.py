"""JobRanges: the arguments of consecutive rows of a job, stored together, and the number of ended rows of each range.

Used by the record. Rows are compared by digests that clients compute; arguments stay pickled.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from scaler.jobs.tables.checksums import SUM_BYTES, DamagedError, DamagedValues, sum_of
from scaler.jobs.tables.schema import RecordError
from scaler.jobs.terms import RowRange
from scaler.jobs.value_files import ValueFiles
from scaler.jobs.values import Arguments, RowArguments

DIGEST_BYTES = 8
"""Size of the digest of a row."""

NOT_COMPARED = bytes(DIGEST_BYTES)
"""The digest of a row whose arguments cannot be compared. Comparisons treat it as different from every digest."""


class RowsDiffer(RecordError):  # noqa: N818 - part of normal use, no error of the record
    """Error for submitted rows that differ from the record. `row`: the first row that differs."""

    def __init__(self, row: int, sentence: str) -> None:
        super().__init__(sentence)
        self.row, self.sentence = row, sentence


class SubmittedRange(NamedTuple):
    """Consecutive rows that were submitted together, new or known."""

    first: int
    n_rows: int
    digest: bytes
    row_digests: bytes
    block: Any

    def check(self) -> None:
        """Raise `ValueError` if the digests do not match the number of rows."""
        if self.n_rows < 1 or len(self.row_digests) != DIGEST_BYTES * self.n_rows:
            raise ValueError(f"{len(self.row_digests)} bytes are not the digests of {self.n_rows} rows")

    def part(self, begin: int, end: int) -> SubmittedRange:
        """Return the rows from `begin` to `end`. The part has no digest of the range; rows are compared one by one."""
        block = Arguments(self.block, self.n_rows).part(begin, end)
        digests = self.row_digests[DIGEST_BYTES * begin : DIGEST_BYTES * end]
        return SubmittedRange(self.first + begin, end - begin, b"", digests, block)


class JobRanges:
    """Stores and compares the ranges of rows of one job, and counts ended rows."""

    def __init__(self, connection: sqlite3.Connection, files: ValueFiles, damage: DamagedValues) -> None:
        self._connection, self._files, self._damage = connection, files, damage
        self.read()

    def read(self) -> None:
        """Read all ranges from disk, without arguments. Raises `RecordError` if the counts of a range are invalid."""
        read = (
            "SELECT ranges.first, count, digest, coalesce(done, 0), coalesce(failed, 0), coalesce(duration_us, 0) "
            "FROM ranges LEFT JOIN counts ON ranges.first = counts.first ORDER BY ranges.first"
        )
        self.by_first: dict[int, RowRange] = {}
        for row in self._connection.execute(read):
            known = RowRange(*row)
            counts = (known.first, known.n_rows, known.done, known.failed)
            if not all(type(each) is int and each >= 0 for each in counts) or type(known.duration_us) is not int:
                raise RecordError(f"the counts of ended rows in its range from row {known.first} on are invalid")
            self.by_first[known.first] = known
        self._firsts = list(self.by_first)
        self.rows = sum(each.n_rows for each in self.by_first.values())
        self.done = sum(each.done for each in self.by_first.values())
        self.failed = sum(each.failed for each in self.by_first.values())

    def first_of(self, row: int) -> int:
        """Return the first row of the range that contains a row."""
        return self._firsts[bisect_right(self._firsts, row) - 1]

    def bounds_of(self, row: int) -> tuple[int, int]:
        """Return the first row of the range that contains a row, and the row after the end of the range."""
        known = self.by_first[self.first_of(row)]
        return known.first, known.first + known.n_rows

    def count(self, first: int, done: int, failed: int, duration_us: int = 0) -> None:
        """Add newly done and failed rows to the counts of a range."""
        known = self.by_first[first]
        new = known._replace(
            done=known.done + done, failed=known.failed + failed, duration_us=known.duration_us + duration_us
        )
        self.by_first[first] = new
        self.done += done
        self.failed += failed
        counts = (first, new.done, new.failed, new.duration_us)
        self._connection.execute("INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?)", counts)

    # Changes

    def add(self, new: SubmittedRange, *, is_sealed: bool) -> int:
        """Store the arguments of the next rows. Return how many of the rows are new.

        Raises:
            RowsDiffer: if known rows have other arguments, a sealed job has fewer rows, or new rows leave a gap.
        """
        new.check()
        if new.first > self.rows:
            raise RowsDiffer(self.rows, f"the job has {self.rows} rows, and row {new.first} does not follow them")
        n_known: int = min(self.rows - new.first, new.n_rows)
        if n_known:
            self._compare(new, n_known)
        if n_known == new.n_rows:
            return 0
        if is_sealed:
            raise RowsDiffer(self.rows, f"the job has {self.rows} rows, and row {self.rows} is one too many")
        self._insert(new.part(n_known, new.n_rows) if n_known else new)
        return new.n_rows - n_known

    def _insert(self, new: SubmittedRange, *, is_new: bool = True) -> None:
        name = f"rows-{new.first}"
        sizes, value = self._files.place(name, (new.block,))
        row = (new.first, new.n_rows, new.digest, sizes, _sum_of(new.first, new.n_rows, (new.block,)),
               new.row_digests + sum_of((new.digest, new.row_digests), new.first), value)  # fmt: skip
        self._connection.execute("INSERT OR REPLACE INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._damage.mend(name)
        known = self.by_first.get(new.first, RowRange(new.first, 0, b""))
        self.by_first[new.first] = known._replace(n_rows=new.n_rows, digest=new.digest)
        if is_new:
            self._firsts.append(new.first)
            self.rows += new.n_rows

    def _compare(self, new: SubmittedRange, n_known: int) -> None:
        """Raise `RowsDiffer` if known rows have different arguments. Rewrite a damaged range that equals `new`."""
        end = new.first + n_known
        at = new.first
        while at < end:
            known = self.by_first[self.first_of(at)]
            stop = min(end, known.first + known.n_rows)
            is_whole = (new.first, new.n_rows) == (known.first, known.n_rows)
            if not (is_whole and new.digest and new.digest == known.digest):
                self._compare_rows(new, known, at, stop)
            if is_whole and self.name_of(known.first) in self._damage.names:
                self._insert(new, is_new=False)
            at = stop

    def _compare_rows(self, new: SubmittedRange, known: RowRange, at: int, stop: int) -> None:
        mine = new.row_digests[DIGEST_BYTES * (at - new.first) : DIGEST_BYTES * (stop - new.first)]
        theirs = self.digests(known.first)[DIGEST_BYTES * (at - known.first) : DIGEST_BYTES * (stop - known.first)]
        changed = [at + each for each in rows_that_differ(mine, theirs)]
        same = self._same_bytes(known, new, changed)
        for row in changed:
            if row not in same:
                raise RowsDiffer(row, f"row {row} has different arguments than the job has stored")

    def _same_bytes(self, known: RowRange, new: SubmittedRange, rows: list[int]) -> set[int]:
        """Return the rows of `rows` whose old and new arguments are the same bytes. Called for rows without digests."""
        if not rows:
            return set()
        try:
            old = self.arguments(known.first)
        except DamagedError:
            return set()
        now = Arguments(new.block, new.n_rows)
        return {row for row in rows if _is_same(old.one(row - known.first), now.one(row - new.first))}

    def replace(self, new: SubmittedRange, check: Callable[[list[int]], None], *, keep_uncompared: bool) -> list[int]:
        """Replace the arguments of the rows of a range. Return the rows whose arguments changed.

        Args:
            check: called with the changed rows before anything changes; may raise.
            keep_uncompared: whether rows that cannot be compared count as unchanged.

        Raises:
            ValueError: if no range has exactly these rows.
        """
        new.check()
        known = self.by_first.get(new.first)
        if known is None or known.n_rows != new.n_rows:
            raise ValueError(f"the job has no range of {new.n_rows} rows from row {new.first} on")
        theirs = self.digests(known.first)
        changed = [known.first + each for each in rows_that_differ(new.row_digests, theirs)]
        if keep_uncompared:
            kept = {known.first + each for each in (*not_compared(theirs), *not_compared(new.row_digests))}
            changed = [row for row in changed if row not in kept]
        same = self._same_bytes(known, new, changed)
        changed = [row for row in changed if row not in same]
        check(changed)
        self._release_file(known.first)
        self._insert(new, is_new=False)
        return changed

    def _release_file(self, first: int) -> None:
        """Release the file of a range after the next commit. A damaged file is not released, but overwritten."""
        name = self.name_of(first)
        if name not in self._damage.names:
            found = self._connection.execute("SELECT 1 FROM ranges WHERE first = ? AND value IS NULL", (first,))
            self._files.release([name] if found.fetchone() else [])

    def part_until(self, n_rows: int) -> SubmittedRange | None:
        """Return the rows before row `n_rows` in the same range; None if this row starts a range, or does not exist.

        Raises:
            DamagedError: if the arguments of this range are damaged.
        """
        first = self.first_of(n_rows) if n_rows < self.rows else n_rows
        if first == n_rows:
            return None
        known = self.by_first[first]
        whole = SubmittedRange(first, known.n_rows, known.digest, self.digests(first), self._block(first))
        return whole.part(0, n_rows - first)

    def truncate(self, n_rows: int, part: SubmittedRange | None) -> None:
        """Drop the rows from `n_rows` on, whose results were dropped before. `part`: the result of `part_until`."""
        for first in [each for each in self._firsts if each >= n_rows]:
            self._release_file(first)
            self._connection.execute("DELETE FROM ranges WHERE first = ?", (first,))
            self._connection.execute("DELETE FROM counts WHERE first = ?", (first,))
            self._damage.mend(self.name_of(first))
            del self.by_first[first]
        self._firsts = list(self.by_first)
        if part is not None:
            self._release_file(part.first)
            self._insert(part, is_new=False)
        self.rows = min(self.rows, n_rows)

    # Reading

    @staticmethod
    def name_of(first: int) -> str:
        """Return the name of a range, as used for its file and in the list of damaged names."""
        return f"rows-{first}"

    def digests(self, first: int) -> bytes:
        """Return the digests of the rows of a range. Damaged digests are replaced by `NOT_COMPARED`."""
        digests = self._stored_digests(first)
        if digests is None:
            self._damage.note([self.name_of(first)])
            return NOT_COMPARED * self.by_first[first].n_rows
        return digests

    def _stored_digests(self, first: int) -> bytes | None:
        """Return the digests of a range on disk, or None if the digests are damaged."""
        query = "SELECT digest, digests FROM ranges WHERE first = ?"
        digest, found = self._connection.execute(query, (first,)).fetchone()
        size = DIGEST_BYTES * self.by_first[first].n_rows
        if not (type(found) is type(digest) is bytes and len(found) == size + SUM_BYTES):
            return None
        return found[:size] if sum_of((digest, found[:size]), first) == found[size:] else None

    def arguments(self, first: int) -> Arguments:
        """Return the arguments of a range. Raises `DamagedError` if they are damaged; the damage is recorded."""
        return Arguments(self._block(first), self.by_first[first].n_rows)

    def _block(self, first: int) -> bytes:
        block, why = self._checked_block(first)
        if why:
            name, last = self.name_of(first), first + self.by_first[first].n_rows - 1
            self._damage.note([name])
            raise DamagedError(
                f"the arguments of the rows {first} to {last} are damaged on disk ({name}: {why}): run the program "
                "again with the same rows, which rewrites them"
            )
        return block

    def _checked_block(self, first: int) -> tuple[bytes, str]:
        """Return the arguments of a range, and why they are damaged: an empty text if they are intact."""
        found = self._connection.execute("SELECT sizes, sum, value FROM ranges WHERE first = ?", (first,)).fetchone()
        sizes, checksum, value = found
        try:
            frames = self._files.take(self.name_of(first), sizes, value)
            if _sum_of(first, self.by_first[first].n_rows, frames) == checksum:
                return frames[0], ""
        except DamagedError as error:
            return b"", str(error)
        return b"", "its checksum does not match"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each damaged range, and the reason."""
        for first in self.by_first:
            _, why = self._checked_block(first)
            if why or self._stored_digests(first) is None:
                yield self.name_of(first), why or "the checksum of its digests does not match"

    def gaps(self) -> list[str]:
        """Return a sentence for each gap between ranges."""
        found, expected = [], 0
        for each in self.by_first.values():
            if each.first != expected:
                found.append(f"rows {expected} to {each.first - 1} are missing")
            expected = each.first + each.n_rows
        return found

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of each file that the table uses, with the packed sizes of the frames in the file."""
        for first, sizes in self._connection.execute("SELECT first, sizes FROM ranges WHERE value IS NULL"):
            yield self.name_of(first), sizes


def rows_that_differ(mine: bytes, theirs: bytes) -> list[int]:
    """Return the positions at which two lists of digests differ, or at least one of them has `NOT_COMPARED`."""
    if mine == theirs and NOT_COMPARED not in mine:
        return []
    pairs = enumerate(zip(_numbers(mine), _numbers(theirs), strict=True))
    return [at for at, (one, other) in pairs if one != other or not one]


def not_compared(digests: bytes) -> Iterable[int]:
    """Return the positions at which a list of digests has `NOT_COMPARED`."""
    return [at for at, each in enumerate(_numbers(digests)) if not each] if NOT_COMPARED in digests else ()


def _numbers(digests: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(digests) // DIGEST_BYTES}Q", digests)


def _is_same(one: RowArguments, other: RowArguments) -> bool:
    return one[:2] == other[:2] and [bytes(each) for each in one.frames] == [bytes(each) for each in other.frames]


def _sum_of(first: int, n_rows: int, frames: Iterable[Any]) -> bytes:
    return sum_of(frames, zlib.crc32(struct.pack("<QQ", first, n_rows)))
