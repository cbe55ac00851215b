"""OpenRows: which rows of a job have ended, and which are to be said next.

Used by the job. It is about numbers alone: arguments are read a range at a time, results are in the record.
Must never: forget that a row has ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping

from scaler.jobs.record import Range
from scaler.jobs.values import Row


class OpenRows:
    """The rows of a job by number.

    Args:
        ranges: that are in the record.
        ended: of those of them that have ended in part: 0 for each row that has not.
    """

    def __init__(self, ranges: Iterable[Range], ended: Mapping[int, bytearray]) -> None:
        self._firsts: list[int] = []
        self._counts: list[int] = []
        self._open: list[int] = []
        """how many rows of each range have not ended"""
        self._ended = dict(ended)
        self.rows = self.done = self.failed = 0
        for each in ranges:
            self.add(each.first, each.n_rows)
            self._open[-1] -= each.done + each.failed
            self.done += each.done
            self.failed += each.failed
        self._cursor = 0
        """the range to be said next"""
        self._loaded: tuple[int, list[Row], int] | None = None
        """the range that is said now: its first row, the arguments of all, how many were passed by"""

    @property
    def n_open(self) -> int:
        """How many rows have not ended."""
        return self.rows - self.done - self.failed

    def add(self, first: int, n_rows: int) -> None:
        """Further rows are on disk."""
        self._firsts.append(first)
        self._counts.append(n_rows)
        self._open.append(n_rows)
        self.rows += n_rows

    def end(self, row: int, *, is_failure: bool) -> bool:
        """A row has ended. Return whether it had not ended before."""
        at = bisect_right(self._firsts, row) - 1
        first = self._firsts[at]
        if not self._open[at]:
            return False
        states = self._ended.get(first)
        if states is None:
            states = self._ended[first] = bytearray(self._counts[at])
        if states[row - first]:
            return False
        states[row - first] = 1
        self._open[at] -= 1
        if not self._open[at]:
            del self._ended[first]
        self.failed += is_failure
        self.done += not is_failure
        return True

    def reopen(self, rows: Iterable[int]) -> None:
        """These rows have failed, and are to run again."""
        for row in rows:
            at = bisect_right(self._firsts, row) - 1
            first = self._firsts[at]
            if not self._open[at]:
                self._ended[first] = bytearray(b"\1") * self._counts[at]
            self._ended[first][row - first] = 0
            self._open[at] += 1
            self.failed -= 1
        self.begin_again()

    def begin_again(self) -> None:
        """Look from the first row on for rows to say."""
        self._cursor, self._loaded = 0, None

    def ended_from(self, row: int, most: int) -> int:
        """Return how many rows from this one on have all ended, at most so many."""
        count = 0
        at = bisect_right(self._firsts, row) - 1
        while 0 <= at < len(self._firsts) and count < most:
            first, n_rows = self._firsts[at], self._counts[at]
            begin = row + count - first
            if begin >= n_rows:
                break
            gap = n_rows
            if self._open[at]:
                states = self._ended.get(first)
                gap = begin if states is None else states.find(0, begin)
                gap = n_rows if gap < 0 else gap
            count += gap - begin
            if gap < n_rows:
                break
            at += 1
        return min(count, most)

    def next_range(self) -> int | None:
        """Return the first row of the range whose arguments are needed next; None: there is none."""
        while self._cursor < len(self._firsts):
            if self._open[self._cursor]:
                return self._firsts[self._cursor]
            self._cursor += 1
        return None

    def load(self, first: int, arguments: list[Row]) -> None:
        """The arguments of a range are here."""
        if self.next_range() == first:
            self._cursor += 1
            self._loaded = (first, arguments, 0)

    def take(self, most: int, said: Container[int]) -> list[tuple[int, Row]]:
        """Take rows to be said, at most so many: those that have not ended and were not said; none: load a range."""
        if self._loaded is None:
            return []
        first, arguments, at = self._loaded
        states = self._ended.get(first)
        is_over = states is None and not self._open[bisect_right(self._firsts, first) - 1]
        taken: list[tuple[int, Row]] = []
        while at < len(arguments) and len(taken) < most and not is_over:
            row = first + at
            if not (states and states[at]) and row not in said:
                taken.append((row, arguments[at]))
            at += 1
        self._loaded = None if is_over or at == len(arguments) else (first, arguments, at)
        return taken
