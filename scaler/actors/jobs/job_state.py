"""JobState: one job in memory: its state, its size, which rows are open, submitted or ended, and the log of ended rows.

Created by the job keeper and the job reader, changed by the job, and read by the handlers of requests. It holds numbers
only, and does not access the disk. Arguments are read a range at a time; results are in the record.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

from scaler.ids import random_id
from scaler.jobs.failures import exceeds, too_many
from scaler.jobs.record import FAILURES_SHOWN, OPEN, JobRecord, JobSummary, RowRange, RowResult
from scaler.jobs.terms import PAUSED, LiveCounts
from scaler.jobs.values import Arguments
from scaler.keys.allowed import Lockout
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import RANGE_BYTES

POSITION_BITS = 32
"""The low bits of a position in a log: how many rows come before it. The other bits have the number of the log."""

_OPEN, _ENDED, _SUBMITTED = b"\0", b"\1", b"\2"


class NextRows(NamedTuple):
    """Consecutive rows that are submitted as one task."""

    first: int
    n_rows: int
    arguments: Arguments
    at: int
    """the position of the first row in `arguments`"""


class OpenRows:
    """The rows of a job by number.

    Args:
        ended: for each partly ended range, by its first row: one byte for each row, 1 if the row has ended, else 0.
    """

    def __init__(self, ranges: Iterable[RowRange], ended: Mapping[int, bytearray]) -> None:
        self._firsts: list[int] = []
        self._counts: list[int] = []
        self._open: list[int] = []
        """the number of rows of each range that have not ended"""
        self._states = dict(ended)
        """one byte for each row, by the first row of the range; only for ranges whose rows have different states"""
        self.live = LiveCounts()
        self.rows = self.done = self.failed = 0
        for each in ranges:
            self.add(each.first, each.n_rows)
            self._open[-1] -= each.done + each.failed
            self.done += each.done
            self.failed += each.failed
        self._cursor = 0
        """the index of the range to load next"""
        self._loaded: tuple[int, Arguments, int] | None = None
        """the range being submitted: its first row, its arguments, and how many of its rows `take` has passed"""

    @classmethod
    def of(cls, record: JobRecord) -> OpenRows:
        """Return the state of the rows of a record. Called by the job writer."""
        in_part = [each.first for each in record.ranges.values() if 0 < each.n_open < each.n_rows]
        return cls(record.ranges.values(), {first: bytearray(map(bool, record.ended_rows(first))) for first in in_part})

    def ended(self) -> Iterator[range]:
        """Yield the rows that have ended, in row order."""
        for at, first in enumerate(self._firsts):
            found = re.finditer(_ENDED + b"+", self._ended_at(at))
            yield from (range(first + each.start(), first + each.end()) for each in found)

    def ended_since(self, before: OpenRows) -> Iterator[int]:
        """Yield the rows that have ended since `before`. `before`: an earlier state of the same job."""
        known = {first: at for at, first in enumerate(before._firsts)}
        for at, first in enumerate(self._firsts):
            now, then = self._ended_at(at), before._ended_at(known[first]) if first in known else b""
            if now != then:
                rows = enumerate(zip_longest(now, then, fillvalue=0), first)
                yield from (row for row, (is_over, was_over) in rows if is_over and not was_over)

    def _ended_at(self, at: int) -> bytes:
        """Return one byte for each row of a range, which says whether the row has ended."""
        states = self._states.get(self._firsts[at])
        if states is None:
            return (_OPEN if self._open[at] else _ENDED) * self._counts[at]
        return bytes(states).replace(_SUBMITTED, _OPEN)

    @property
    def n_open(self) -> int:
        """The number of rows that have not ended."""
        return self.rows - self.done - self.failed

    def add(self, first: int, n_rows: int) -> None:
        """Add a range of rows that is on disk."""
        self._firsts.append(first)
        self._counts.append(n_rows)
        self._open.append(n_rows)
        self.rows += n_rows

    def _at(self, row: int) -> int:
        return bisect_right(self._firsts, row) - 1

    def _states_at(self, at: int) -> bytearray:
        first = self._firsts[at]
        states = self._states.get(first)
        if states is None:
            states = self._states[first] = bytearray(_OPEN if self._open[at] else _ENDED) * self._counts[at]
        return states

    def end(self, row: int, n_rows: int, *, is_failure: bool) -> Sequence[int]:
        """Mark consecutive rows as ended. Return the rows that had not ended before."""
        at = self._at(row)
        states, begin = self._states_at(at), row - self._firsts[at]
        before = states[begin : begin + n_rows]
        new: Sequence[int] = range(row, row + n_rows)
        if before.count(_ENDED):
            new = [each for each, state in zip(new, before, strict=True) if state != _ENDED[0]]
        states[begin : begin + n_rows] = _ENDED * n_rows
        self.live.handed_out -= before.count(_SUBMITTED)
        self._open[at] -= len(new)
        if not self._open[at]:
            del self._states[self._firsts[at]]
        self.failed += len(new) if is_failure else 0
        self.done += 0 if is_failure else len(new)
        return new

    def requeue(self, row: int, n_rows: int = 1) -> None:
        """Mark submitted rows as open, so that they are submitted again."""
        at = self._at(row)
        begin = row - self._firsts[at]
        self._states_at(at)[begin : begin + n_rows] = _OPEN * n_rows
        self.live.handed_out -= n_rows
        self.rewind()

    def reopen(self, rows: Sequence[int], n_done: int = 0) -> None:
        """Mark ended rows as open. `n_done`: how many of the rows had succeeded."""
        for row in rows:
            at = self._at(row)
            self._states_at(at)[row - self._firsts[at]] = _OPEN[0]
            self._open[at] += 1
        self.done -= n_done
        self.failed -= len(rows) - n_done
        self.rewind()

    def rewind(self) -> None:
        """Go back to the first row in the search for open rows."""
        self._cursor, self._loaded = 0, None

    def ended_from(self, row: int, most: int) -> int:
        """Return the number of consecutive ended rows from `row` on, at most `most`."""
        count = 0
        at = self._at(row)
        while 0 <= at < len(self._firsts) and count < most:
            first, n_rows = self._firsts[at], self._counts[at]
            begin = row + count - first
            if begin >= n_rows:
                break
            gap = n_rows
            if self._open[at]:
                states = self._states.get(first)
                gap = begin if states is None else n_rows - len(states[begin:].lstrip(_ENDED))
            count += gap - begin
            if gap < n_rows:
                break
            at += 1
        return min(count, most)

    def next_range(self) -> int | None:
        """Return the first row of the range whose arguments are needed next; None if no range has open rows."""
        while self._cursor < len(self._firsts):
            if self._open[self._cursor]:
                return self._firsts[self._cursor]
            self._cursor += 1
        return None

    def load(self, first: int, arguments: Arguments) -> None:
        """Take the arguments of the range that `next_range` returned."""
        if self.next_range() == first:
            self._cursor += 1
            self._loaded = (first, arguments, 0)

    def take(self, most: int) -> NextRows | None:
        """Choose up to `most` consecutive rows to submit as one task. Return None if a range must be loaded first."""
        if self._loaded is None:
            return None
        first, arguments, begin = self._loaded
        at = self._at(first)
        states = self._states_at(at) if self._open[at] else bytearray()
        begin = states.find(_OPEN, begin)
        if begin < 0:
            self._loaded = None
            return None
        n_rows = arguments.fitting(begin, most, RANGE_BYTES)
        n_rows -= len(states[begin : begin + n_rows].lstrip(_OPEN))
        states[begin : begin + n_rows] = _SUBMITTED * n_rows
        self.live.handed_out += n_rows
        self._loaded = (first, arguments, begin + n_rows)
        return NextRows(first + begin, n_rows, arguments, begin)

    def check(self) -> None:
        """Assert that the counts agree."""
        assert self.done + self.failed + sum(self._open) == self.rows == sum(self._counts)
        submitted = sum(states.count(_SUBMITTED) for states in self._states.values())
        assert self.live.handed_out == submitted, f"{submitted} rows are submitted, but {self.live.handed_out} count"


class EndedLog:
    """The ended rows of a job, in the order in which a scheduler has found them: those that had ended when it opened
    the job, in row order, then the others as their results are written to disk. A row that runs again and ends again
    is added again. Takes 12 bytes for consecutive rows.
    """

    def __init__(self, ended: Iterable[range]) -> None:
        self._number = int.from_bytes(random_id()[:4], "little")
        """a random number, by which positions in the logs of other schedulers are recognised"""
        self._firsts, self._ends = array("Q"), array("I")
        """for each group of consecutive rows: its first row, and the number of rows of the log up to its end"""
        self._next = -1
        """the row after the last one"""
        for rows in ended:
            self.add(rows)

    def add(self, rows: Iterable[int]) -> None:
        """Add rows whose results are on disk."""
        for each in (rows,) if isinstance(rows, range) else (range(row, row + 1) for row in rows):
            if each.start != self._next:
                self._firsts.append(each.start)
                self._ends.append(self._ends[-1] if self._ends else 0)
            self._ends[-1] += len(each)
            self._next = each.stop

    def place(self, position: int) -> int:
        """Return a position in this log; its beginning for a position in another log."""
        begin = self._number << POSITION_BITS
        return position if position >> POSITION_BITS == self._number else begin

    def rows(self, position: int, most: int) -> list[range]:
        """Return the rows from a position on, at most `most` rows."""
        begin, found = position % 2**POSITION_BITS, list[range]()
        at = bisect_right(self._ends, begin)
        while most > 0 and at < len(self._ends):
            n_rows = min(most, self._ends[at] - begin)
            first = self._firsts[at] + begin - (self._ends[at - 1] if at else 0)
            found.append(range(first, first + n_rows))
            begin, most, at = begin + n_rows, most - n_rows, at + 1
        return found


class JobState:
    """The state of a job in memory. Created in the job writer's thread, because it reads the record.

    Args:
        is_new: whether no scheduler has submitted any of the rows before.
        is_new_version: whether this scheduler has just begun a new version of the job.
    """

    is_at_most_once = False

    is_fresh = True
    """whether programs of the job may still be reconnecting after a start of the scheduler"""

    def __init__(self, record: JobRecord, is_new: bool, is_new_version: bool = False) -> None:
        self.terms, self.is_new, self.is_new_version = record.terms, is_new, is_new_version
        self.rows = OpenRows.of(record)
        self.log = EndedLog(self.rows.ended())
        self.record_id = record.record_id
        self.state, self.reason, self.is_sealed = record.state, record.reason, record.is_sealed
        self.size_bytes, self.changed, self.duration_us = record.size_bytes, record.changed, record.duration_us
        self.failures = tuple(record.first_failures)
        """the failures of the first failed rows, in row order"""
        self.max_failures = self.terms.max_failures
        self.trouble = ""
        """why nothing can be written at the moment"""
        self.lockout: Lockout | None = None

    @property
    def is_open(self) -> bool:
        """Whether the job has not ended."""
        return bool(self.state == OPEN)

    @property
    def why_paused(self) -> str:
        """Why no row may begin, as a sentence; empty if rows may begin."""
        return self.lockout.reason if self.lockout is not None and self.is_open else self.trouble

    def follow(self, before: JobState) -> None:
        """Continue the log of an earlier state of the same job, since another program has changed the record."""
        self.log = before.log
        self.log.add(self.rows.ended_since(before.rows))

    def end(self, results: Iterable[RowResult]) -> None:
        """Count results that are on disk, and add the rows that had not ended before to the log."""
        for result in results:
            is_failure = result.status != TaskStatus.SUCCESS
            new = self.rows.end(result.row, result.n_rows, is_failure=is_failure)
            self.log.add(new)
            if new and is_failure:
                self._show_failures(result)

    def _show_failures(self, *failures: RowResult) -> None:
        self.failures = tuple(sorted((*self.failures, *failures), key=attrgetter("row"))[:FAILURES_SHOWN])

    def reopen(self, rows: Sequence[int], n_done: int = 0) -> None:
        """Count ended rows as open, since they run again. `n_done`: how many of the rows were done."""
        again = set(rows)
        self.failures = tuple(each for each in self.failures if each.row not in again)
        self.rows.reopen(rows, n_done)

    def lose(self, damaged: Sequence[RowResult]) -> None:
        """Count done rows as failed, since their results on disk are damaged. Log them again: readers may lack them."""
        self.log.add(each.row for each in damaged)
        self.rows.done -= len(damaged)
        self.rows.failed += len(damaged)
        self._show_failures(*damaged)

    def why_stop(self) -> str:
        """Return a sentence if the job is open and too many rows have failed; else an empty text."""
        most, failed, ended = self.max_failures, self.rows.failed, self.rows.done + self.rows.failed
        if most is None or not self.is_open:
            return ""
        is_end = self.is_sealed and not self.rows.n_open
        return too_many(most, failed, ended, "rows") if exceeds(most, failed, ended, is_end) else ""

    def summary(self) -> JobSummary:
        """Return a summary of the job in one line, for screens."""
        rows, state = self.rows, PAUSED if self.lockout is not None and self.is_open else self.state
        return JobSummary(
            self.terms, state, self.reason or self.why_paused, self.is_sealed, rows.rows, rows.done, rows.failed,
            self.size_bytes, self.changed, self.failures, rows.live, self.record_id,
        )  # fmt: skip

    def info(self) -> dict[str, Any]:
        """Return the state of the job, for clients."""
        terms = self.terms
        more = {"options": terms.options.hex(), "token": terms.token, "seconds": self.duration_us / 1e6}
        more |= {"priority": terms.priority, "task_name": terms.task_name}
        return {**self.summary().info(), **more, "python": terms.python, "fingerprint": terms.fingerprint}
