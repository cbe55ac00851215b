"""Results: the outcomes of rows, with checksums. A line of the table holds one row, or consecutive done rows.

Used by the record. A damaged value is never returned: a damaged or missing result becomes the failure of its row alone.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from scaler.jobs.tables.checksums import HOW_SEED, SIGN, SUM_BYTES, DamagedError, number_of, seed_of, sum_of, sums_of
from scaler.jobs.tables.places import FailurePlaces
from scaler.jobs.tables.ranges import JobRanges
from scaler.jobs.tables.schema import DAMAGED_TABLE, RESULTS
from scaler.jobs.terms import DAMAGED, ENDED_WELL, FAILED, RAISED, RowResult, n_bytes
from scaler.jobs.value_files import IN_DATABASE_BYTES, ValueFiles
from scaler.jobs.values import PackedBlocks, pack

COLUMNS = "row, count, how, sizes, sums, value"

VERSION_SHIFT = 8
"""The column `how` is the version, shifted left by this number of bits, plus the status. SQLite stores 0 in no byte."""

STATUS_MASK = 255
STATUSES = 16
"""A number greater than each `TaskStatus`."""

STATUS = f"how & {STATUS_MASK}"

FAILURES_SHOWN = 20
"""Number of failed rows in a summary."""

NO_SUM = bytes(SUM_BYTES)
"""The first checksum of packed results that were malformed when they were stored."""

NOT_WRITTEN = "its checksum does not match"


class ResultLine(NamedTuple):
    """A line of the table of results: the outcome of one row, or of consecutive rows."""

    row: int
    n_rows: int
    how: int
    sizes: bytes | None
    """the packed sizes of the frames; None: the value has one frame, in the database"""
    sums: bytes
    """one checksum for each row, and one for the whole value of several rows; a single checksum is a number on disk"""
    value: bytes | None
    """the value, or the packed results of consecutive rows; None: the value is in a file"""

    @property
    def status(self) -> int:
        return self.how & STATUS_MASK

    @property
    def packed(self) -> bytes:
        """The packed results of consecutive rows."""
        return self.value or b""


class Results:
    """Stores and checks the results of one job. If `is_writing`, damaged results become failures on disk, too.

    Args:
        ranges: the ranges, which count ended rows.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        files: ValueFiles,
        ranges: JobRanges,
        places: FailurePlaces,
        is_writing: bool,
    ) -> None:
        self._connection, self._files, self._ranges, self._is_writing = connection, files, ranges, is_writing
        self._places = places
        self.became_failed: list[RowResult] = []
        """failures of done rows whose results were found damaged or missing; `JobRecord.take_damaged` takes them"""

    # Changes

    def add(self, results: Sequence[RowResult], version: int) -> int:
        """Store results. Rows that have already ended keep their results. Return how many results were added."""
        before, above = self._connection.total_changes, version << VERSION_SHIFT
        lines: list[tuple[Any, ...]] = []
        added: dict[int, list[int]] = {}
        first, end, counts = 0, 0, [0, 0, 0]
        for result in results:
            row, status, frames, n_rows, duration_us = result
            if status == RAISED:
                frames = self._places.cut(frames)
            if not first <= row < end:
                first, end = self._ranges.bounds_of(row)
                counts = added.setdefault(first, [0, 0, 0])
            counts[status != 0] += n_rows
            counts[2] += duration_us
            if n_rows == len(frames) == 1 and len(frames[0]) <= IN_DATABASE_BYTES:  # the common case
                how = status | above
                checksum = zlib.crc32(frames[0], row + how * HOW_SEED) - SIGN
                lines.append((row, 1, how, None, checksum, frames[0]))
            else:
                lines += self._lines_of_rare(result._replace(frames=frames), above)
        self._insert(lines)
        n_added = self._connection.total_changes - before
        for first, counts in added.items():
            if n_added < len(results):  # some rows had ended before
                self.recount(first)
            else:
                self._ranges.count(first, *counts)
        return n_added

    def _lines_of_rare(self, result: RowResult, above: int) -> list[tuple[Any, ...]]:
        """Return the line of a result with several rows, several frames or a large value; empty if the row has one."""
        row, status, frames, n_rows, _ = result
        how = status | above
        if n_rows > 1:
            # A malformed value gets zero checksums, so that its rows are not left open, and fail when they are read.
            sums = _sums_of_packed(frames[0], n_rows, row, how) or bytes(SUM_BYTES * n_rows)
            sums += sum_of(frames, seed_of(row, how))
            return [(row, n_rows, how, None, sums, frames[0])]
        if self._connection.execute("SELECT 1 FROM results WHERE row = ?", (row,)).fetchone():
            return []
        sizes, value = self._files.place(file_of(row), frames)
        return [(row, 1, how, sizes, number_of(sum_of(frames, seed_of(row, how))), value)]

    def _insert(self, lines: Iterable[tuple[Any, ...]]) -> None:
        self._connection.executemany("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?)", lines)

    def _delete(self, rows: Iterable[int]) -> None:
        self._connection.executemany("DELETE FROM results WHERE row = ?", ((row,) for row in rows))

    def recount(self, first: int) -> None:
        """Recount the ended rows of a range."""
        known, ended = self._ranges.by_first[first], self.ended_rows(first)
        done, failed = ended.count(ENDED_WELL), ended.count(FAILED)
        self._ranges.count(first, done - known.done, failed - known.failed)

    def is_counted(self, first: int) -> bool:
        """Return whether the counts of a range match its results."""
        known, ended = self._ranges.by_first[first], self.ended_rows(first)
        return (ended.count(ENDED_WELL), ended.count(FAILED)) == (known.done, known.failed)

    def has_failed(self, status: int) -> bool:
        """Return whether a row has failed with this `TaskStatus`."""
        query = f"SELECT 1 FROM results WHERE {STATUS} = {int(status)} LIMIT 1"  # noqa: S608 - a number
        return self._connection.execute(query).fetchone() is not None

    def reopen_failed(self, status: int | None, of: set[int] | None = None) -> list[int]:
        """Drop failures: all, or only those with a status, or of rows in `of`. Return their rows, which run again."""
        which = f"{STATUS} != 0" if status is None else f"{STATUS} = {int(status)}"
        query = f"SELECT row, value IS NULL FROM results WHERE {which} ORDER BY row"  # noqa: S608 - a number
        found = [each for each in self._connection.execute(query) if of is None or each[0] in of]
        rows = [row for row, _ in found]
        self._files.release(file_of(row) for row, is_in_file in found if is_in_file)
        self._delete(rows)
        for first, count in Counter(map(self._ranges.first_of, rows)).items():
            self._ranges.count(first, 0, -count)
        return rows

    def drop_all(self) -> None:
        """Drop all results."""
        self._files.release(name for name, _ in self.files())
        self._connection.execute("DELETE FROM results")
        for first in list(self._ranges.by_first):
            self.recount(first)

    def drop(self, rows: Iterable[int]) -> None:
        """Drop the results of rows; open rows are ignored."""
        self._take_out(rows, {})

    def fail(self, failures: Mapping[int, RowResult]) -> None:
        """Replace the results of ended rows by failures."""
        self._take_out(failures, failures)

    def _take_out(self, rows: Iterable[int], failures: Mapping[int, RowResult]) -> None:
        """Remove rows from their lines. Store the given failures in place of the results of these rows."""
        waiting, counted = sorted(rows), set()
        at = 0
        while at < len(waiting):
            row = waiting[at]
            line = self._line_at(row)
            end = row + 1 if line is None else line.row + line.n_rows
            in_line = set()
            while at < len(waiting) and waiting[at] < end:
                in_line.add(waiting[at])
                at += 1
            if line is not None:
                self._divide(line, in_line, failures)
            elif row in failures:
                self._keep_failures([failures[row]])
            counted.add(self._ranges.first_of(row))
        for first in counted:
            self.recount(first)

    def _line_at(self, row: int) -> ResultLine | None:
        query = f"SELECT {COLUMNS} FROM results WHERE row <= ? ORDER BY row DESC LIMIT 1"  # noqa: S608 - a constant
        found = self._connection.execute(query, (row,)).fetchone()
        line = self._line(found) if found is not None else None
        return line if line is not None and row < line.row + line.n_rows else None

    def _line(self, found: tuple[Any, ...]) -> ResultLine:
        """Parse a line, which may be damaged. The parsed line ends at the latest with the range of its first row."""
        row, count, how, sizes, sums, value = found
        known = self._ranges.by_first[self._ranges.first_of(row)]
        most = max(1, known.first + known.n_rows - row)
        return ResultLine(
            row,
            min(max(1, count), most) if type(count) is int else 1,
            how if type(how) is int else -1,
            sizes if sizes is None or type(sizes) is bytes else b"?",
            _sums_as_bytes(sums),
            value if value is None or type(value) is bytes else b"",
        )

    def _divide(self, line: ResultLine, taken: set[int], failures: Mapping[int, RowResult]) -> None:
        """Replace a line by new lines without the rows in `taken`. Other rows fail if their results are damaged."""
        rows = range(line.row, line.row + line.n_rows)
        blocks = dict(zip(rows, _blocks_of(line) if len(taken) < line.n_rows else (), strict=False))
        failed = {row: failures[row] for row in taken if row in failures}
        failed.update({row: _failure(row, NOT_WRITTEN) for row in blocks if blocks[row] is None and row not in taken})
        if line.value is None and not failed:  # a damaged file is not removed
            self._files.release([file_of(line.row)])
        self._delete([line.row])
        self._insert(
            _lines_of(line, {row: block for row, block in blocks.items() if block is not None and row not in taken})
        )
        self._keep_failures(failed.values(), is_new=line.n_rows > 1 or not _had_failed(line))

    def _keep_failures(self, failures: Iterable[RowResult], *, is_new: bool = True) -> None:
        found = list(failures)
        self._insert(
            (row, 1, status, None, number_of(sum_of(frames, seed_of(row, status))), frames[0])
            for row, status, frames, *_ in found
        )
        self.became_failed += found if is_new else ()

    def unreadable(self) -> list[tuple[int, int]]:
        """Return the first row and the number of rows of each unreadable line. Not for use in a transaction.

        If a line's number of rows is damaged, too, all rows before the next line are counted.

        Raises:
            sqlite3.DatabaseError: if the lines cannot even be listed.
        """
        found: list[tuple[int, int]] = []
        lines = self._connection.execute("SELECT row, count FROM results ORDER BY row").fetchall()
        for (row, count), (end, _) in zip(lines, (*lines[1:], (self._ranges.rows, 1)), strict=True):
            try:
                self._connection.execute("SELECT * FROM results WHERE row = ?", (row,)).fetchall()
            except sqlite3.DatabaseError:
                found.append((row, _n_rows_of(count, end - row)))
        return found

    def salvage(self, unreadable: Sequence[tuple[int, int]]) -> None:
        """Create the table again without unreadable lines, whose rows fail.

        The damaged table is kept under another name, because SQLite would have to read it in order to drop it.
        """
        execute = self._connection.execute
        (n_tables,) = execute("SELECT count(*) FROM sqlite_schema").fetchone()
        execute(f"ALTER TABLE results RENAME TO {DAMAGED_TABLE}{n_tables}")
        execute("DROP INDEX files")
        for statement in RESULTS:
            execute(statement)
        begin = -(2**63)
        for row, _ in (*unreadable, (2**63 - 1, 1)):
            copy = f"INSERT INTO results SELECT {COLUMNS} FROM {DAMAGED_TABLE}{n_tables} WHERE row >= ? AND row < ?"  # noqa: S608
            execute(copy, (begin, row))
            begin = min(row + 1, 2**63 - 1)
        rows = range(self._ranges.rows)
        lost = [row for first, n_rows in unreadable for row in range(first, first + n_rows) if row in rows]
        self._keep_failures(_failure(row, "its page is damaged") for row in lost)
        for first in {self._ranges.first_of(row) for row in lost}:
            self.recount(first)

    def fail_without_files(self) -> bool:
        """Fail rows whose files are missing or have the wrong size. Return whether such rows were found.

        Outside of a transaction, and in a read-only record, nothing is changed.
        """
        failures = {row: _failure(row, why, file_of(row)) for row, why in self._bad_files()}
        if failures and self._is_writing and self._connection.in_transaction:
            self.fail(failures)
        return bool(failures)

    def _bad_files(self) -> Iterator[tuple[int, str]]:
        for name, sizes in self.files():
            why = self._files.why_damaged(name, sizes)
            if why:
                yield int(name.removeprefix("row-")), why

    # Reading

    def version_of(self, row: int) -> int:
        """Return the version that ran a row; -1 if the row has not ended, or its result is damaged."""
        line = self._line_at(row)
        return -1 if line is None else line.how >> VERSION_SHIFT

    def ended_rows(self, first: int) -> bytearray:
        """Return one byte for each row of a range: 0 for an open row, `ENDED_WELL` or `FAILED`."""
        states = bytearray(self._ranges.by_first[first].n_rows)
        end = first + len(states)
        query = "SELECT row, count, how FROM results WHERE row >= ? AND row < ?"
        for row, count, how in self._connection.execute(query, (first, end)):
            n_rows = _n_rows_of(count, end - row)
            state = FAILED if type(how) is not int or how & STATUS_MASK else ENDED_WELL
            states[row - first : row - first + n_rows] = bytes((state,)) * n_rows
        return states

    def read(self, first: int, count: int, most_bytes: int) -> list[RowResult]:
        """Return results of ended rows among `count` rows from `first` on: one, or more up to about `most_bytes`."""
        query = (
            f"SELECT {COLUMNS} FROM results "  # noqa: S608 - a constant
            "WHERE row >= coalesce((SELECT max(row) FROM results WHERE row <= :first), :first) AND row < :end "
            "ORDER BY row"
        )
        end = first + count
        return self._read(self._connection.execute(query, {"first": first, "end": end}), most_bytes, first, end)

    def failures(self, first: int, end: int, most: int) -> list[RowResult]:
        """Return the first failed rows from row `first` to `end`, at most `most` rows."""
        query = f"SELECT {COLUMNS} FROM results WHERE {STATUS} != 0 AND row >= ? AND row < ? ORDER BY row LIMIT ?"  # noqa: S608
        found = self._read(self._connection.execute(query, (first, end, most)), 2**62, None, end)
        return [self._restored(each) if each.status == RAISED else each for each in found]

    def _restored(self, failure: RowResult) -> RowResult:
        return failure._replace(frames=self._places.restored(failure.frames))

    def _read(self, found: Iterable[tuple[Any, ...]], most_bytes: int, first: int | None, end: int) -> list[RowResult]:
        """Return the results of lines. Damaged and missing results are returned as failures.

        Args:
            first: the first requested row; None: `found` has only some lines, so rows without a line are not missing.
        """
        results: list[RowResult] = []
        damaged: dict[int, RowResult] = {}
        n_read, at = 0, end if first is None else first
        for line in found:
            whole = _whole(line, first or 0, end)
            if whole is not None:
                begin, stop, pieces = whole.row, whole.row + whole.n_rows, [whole]
            else:
                begin, stop, pieces = self._checked_part(self._line(line), first or 0, end, damaged)
            if begin > at:
                results += self._lost(at, begin, damaged)
            at = max(at, stop)
            results += pieces
            n_read += n_bytes(pieces) if whole is None else len(whole.frames[0])
            if n_read >= most_bytes:
                break
        else:
            results += self._lost(at, end, damaged)
        if damaged and self._is_writing and self._connection.in_transaction:
            self.fail(damaged)
        return results

    def _lost(self, begin: int, end: int, damaged: dict[int, RowResult]) -> list[RowResult]:
        """Return a failure for each row from `begin` to `end` that has ended and has no line."""
        lost = [_failure(row, "it is missing") for row in self._missing(begin, end)]
        damaged.update((each.row, each) for each in lost)
        return lost

    def _missing(self, begin: int, end: int) -> Iterator[int]:
        """Yield the rows from `begin` to `end` that have no line, although all rows of their range have ended."""
        end = min(end, self._ranges.rows)
        while begin < end:
            known = self._ranges.by_first[self._ranges.first_of(begin)]
            stop = max(begin + 1, min(end, known.first + known.n_rows))
            if not known.n_open:
                yield from range(begin, stop)
            begin = stop

    def _checked_part(
        self, line: ResultLine, first: int, end: int, damaged: dict[int, RowResult]
    ) -> tuple[int, int, list[RowResult]]:
        """Return the overlap of a line with the rows from `first` to `end`: first row, end, and results."""
        begin, stop = max(line.row, first), min(line.row + line.n_rows, end)
        if begin >= stop:
            return first, 0, []
        pieces, bad = self._checked(line, begin, stop)
        damaged.update(bad)
        return begin, stop, pieces

    def _checked(self, line: ResultLine, begin: int, stop: int) -> tuple[list[RowResult], dict[int, RowResult]]:
        """Return a line's results from `begin` to `stop`, and the line's failures if any of the results is damaged."""
        if line.n_rows == 1:
            return self._checked_alone(line)
        at, to = begin - line.row, stop - line.row
        try:
            sums = sums_of(line.packed, _ends_of(line.packed, line.n_rows)[at : to + 1], begin, line.how)
            if sums == line.sums[SUM_BYTES * at : SUM_BYTES * to] and not line.status:
                return [_piece_of(line, at, to)], {}
        except _UNFIT:
            pass
        blocks = dict(enumerate(_blocks_of(line), line.row))
        bad = {row: _failure(row, NOT_WRITTEN) for row, block in blocks.items() if block is None}
        well = {row: block for row, block in blocks.items() if block is not None and begin <= row < stop}
        pieces = [*_results_of(well), *(each for row, each in bad.items() if begin <= row < stop)]
        return sorted(pieces, key=lambda each: each.row), bad

    def _checked_alone(self, line: ResultLine) -> tuple[list[RowResult], dict[int, RowResult]]:
        name, why = file_of(line.row), NOT_WRITTEN
        is_in_file = line.value is None
        try:
            frames = (line.value,) if line.sizes is None else self._files.take(name, line.sizes, line.value)
            if sum_of(frames, seed_of(line.row, line.how)) == line.sums:
                return [RowResult(line.row, line.status, frames)], {}
        except DamagedError as error:
            why = str(error)
        except _UNFIT:
            pass
        failure = _failure(line.row, why, name if is_in_file else "")
        return [failure], {line.row: failure}

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of each file that the table uses, with the packed sizes of the frames in the file."""
        for row, sizes in self._connection.execute("SELECT row, sizes FROM results WHERE value IS NULL"):
            yield file_of(row), sizes if type(sizes) is bytes else b"?"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each damaged result, and the reason."""
        query = f"SELECT {COLUMNS} FROM results ORDER BY row"  # noqa: S608 - a constant
        for line in map(self._line, self._connection.execute(query)):
            for row in self._checked(line, line.row, line.row + line.n_rows)[1]:
                yield file_of(row), NOT_WRITTEN

    def miscounts(self) -> list[str]:
        """Return a sentence for each range whose counts do not match its results."""
        wrong = [each for each in self._ranges.by_first.values() if not self.is_counted(each.first)]
        ends = [each.first + each.n_rows - 1 for each in wrong]
        return [
            f"rows {each.first} to {end}: the results do not match their count"
            for each, end in zip(wrong, ends, strict=True)
        ]

    def with_status(self, first: int, status: int) -> set[int]:
        """Return those rows of a range that have the given `TaskStatus`."""
        query = f"SELECT row FROM results WHERE row >= ? AND row < ? AND {STATUS} = ?"  # noqa: S608 - a constant
        end = first + self._ranges.by_first[first].n_rows
        return {row for (row,) in self._connection.execute(query, (first, end, status))}

    def by_version(self) -> dict[int, int]:
        """Return the number of ended rows by version."""
        query = f"SELECT how >> {VERSION_SHIFT}, sum(count) FROM results GROUP BY 1"  # noqa: S608 - a number
        return dict(self._connection.execute(query))


_UNFIT = (TypeError, ValueError, OverflowError, IndexError, struct.error)
"""Exceptions that a damaged line can raise, because any value in the line may have been replaced."""


def _whole(found: tuple[Any, ...], first: int, end: int) -> RowResult | None:
    """Return the result of a line if it is undamaged, has no file, and has only rows from `first` to `end`; else None.

    This is the fast path for most lines.
    """
    row, n_rows, how, sizes, sums, value = found
    if sizes is not None or type(value) is not bytes or type(how) is not int or row < first:
        return None
    if n_rows == 1:
        is_whole = zlib.crc32(value, row + how * HOW_SEED) - SIGN == sums
    else:
        is_fitting = type(n_rows) is int and 1 < n_rows <= end - row and type(sums) is bytes
        is_whole = (
            is_fitting
            and len(sums) == SUM_BYTES * (n_rows + 1)
            and sum_of((value,), seed_of(row, how)) == sums[-SUM_BYTES:]
            and not (how & STATUS_MASK or sums.startswith(NO_SUM))
        )
    return RowResult(row, how & STATUS_MASK, (value,), n_rows) if is_whole else None


def file_of(row: int) -> str:
    """Return the name of the file for the result of a row."""
    return f"row-{row}"


def _n_rows_of(count: Any, most: int) -> int:
    """Return the number of rows of a line. `count`: the stored number, which may be damaged."""
    return min(max(1, count), most) if type(count) is int else 1


def _failure(row: int, why: str, file: str = "") -> RowResult:
    sentence = (
        f"the result of row {row} is damaged or missing on disk ({file or 'in the database'}: {why}): retry() of its "
        "job runs the row again, unless it has at_most_once; the next map or start with the job's name does the same"
    )
    return RowResult(row, DAMAGED, (sentence.encode(),))


def _sums_as_bytes(sums: Any) -> bytes:
    if type(sums) is int and -SIGN <= sums < SIGN:
        return (sums + SIGN).to_bytes(SUM_BYTES, "little")
    return sums if type(sums) is bytes else b""


def _ends_of(value: Any, count: int) -> list[int]:
    """Return where the first packed result starts, then where each result ends. Raises if the lengths are damaged."""
    ends = list(accumulate(struct.unpack_from(f"<{count}I", value), initial=4 * count))
    if ends[-1] != len(value):
        raise ValueError("its lengths are damaged")
    return ends


def _sums_of_packed(value: Any, count: int, row: int, how: int) -> bytes:
    """Return the checksums of packed results; empty if the lengths of the results are damaged."""
    try:
        return sums_of(value, _ends_of(value, count), row, how)
    except _UNFIT:
        return b""


def _had_failed(line: ResultLine) -> bool:
    """Return whether a row had failed before its line was damaged.

    If the checksum fits a status, that status decides; the status in the line may be damaged, too.
    """
    for status in range(STATUSES):
        if sum_of((line.packed,), seed_of(line.row, status)) == line.sums:
            return status != 0
    return line.how > 0 and line.status != 0


def _blocks_of(line: ResultLine) -> list[bytes | None]:
    """Return the results packed in a line, with None for each damaged result.

    If one length is damaged, the later results are found by their distance from the end.
    """
    blocks: list[bytes | None] = [None] * line.n_rows
    try:
        ends = list(accumulate(struct.unpack_from(f"<{line.n_rows}I", line.packed), initial=4 * line.n_rows))
    except _UNFIT:
        return blocks
    for at in range(line.n_rows):
        expected = line.sums[SUM_BYTES * at : SUM_BYTES * (at + 1)]
        for shift in (0, len(line.packed) - ends[-1]):
            begin, end = ends[at] + shift, ends[at + 1] + shift
            block = line.packed[begin:end] if begin >= 0 else b""
            if sum_of((block,), seed_of(line.row + at, line.how)) == expected:
                blocks[at] = block
    return blocks


def _piece_of(line: ResultLine, at: int, end: int) -> RowResult:
    if end - at == line.n_rows:
        return RowResult(line.row, 0, (line.packed,), line.n_rows)
    packed = PackedBlocks(line.packed, line.n_rows)
    return RowResult(line.row + at, 0, (packed.one(at) if end - at == 1 else packed.cut(at, end),), end - at)


def _results_of(blocks: Mapping[int, bytes]) -> Iterator[RowResult]:
    """Yield results for undamaged rows. The results of consecutive rows are packed together."""
    for _, group in groupby(enumerate(sorted(blocks)), lambda each: each[1] - each[0]):
        rows = [row for _, row in group]
        frame = blocks[rows[0]] if len(rows) == 1 else pack([blocks[row] for row in rows])
        yield RowResult(rows[0], 0, (frame,), len(rows))


def _lines_of(line: ResultLine, blocks: Mapping[int, bytes]) -> Iterator[tuple[Any, ...]]:
    """Yield table lines for the rows that stay when rows are taken out of `line`. The checksums are those of `line`."""
    for each in _results_of(blocks):
        at = each.row - line.row
        sums = line.sums[SUM_BYTES * at : SUM_BYTES * (at + each.n_rows)]
        total = sum_of(each.frames, seed_of(each.row, line.how))
        sums_or_sum = sums + total if each.n_rows > 1 else number_of(sums)
        yield each.row, each.n_rows, line.how, None, sums_or_sum, each.frames[0]
