"""Reading: how rows have ended, for the clients that ask; what is not known yet waits here.

Used by the job. Results are read from the record, so nobody is told of one that is not on disk. Must never: change
anything.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias

from scaler.actors.jobs.answers import failures_of, refused, results_of
from scaler.actors.jobs.open_rows import OpenRows
from scaler.actors.messages.jobs import JobAsked
from scaler.ids import random_id
from scaler.jobs.record import JobRecord, Result
from scaler.jobs.values import Row
from scaler.kit import ActorRef
from scaler.wire.messages.client import JobResponse

READ_ROWS, READ_BYTES = 4096, 4 * 1024 * 1024
"""The most results in one answer, but for a single large one."""

FAILURES_MOST = 1000

ATTEND, SCAN = b"a", b"s"
"""The body of `READ`: the client needs the job to go on; or: whichever of the next rows have ended."""


NOT_READ = "results cannot be read"

Steps: TypeAlias = Generator[tuple[Callable[[], Any], str], Any, None]
"""Yields orders for the clerk, each with what a client hears if it fails, and goes on with what they return."""


class Reading:
    """What clients read of one job.

    Args:
        rows: which of them have ended.
        tell: answers a question.
    """

    def __init__(
        self,
        record: JobRecord,
        rows: OpenRows,
        tell: Callable[[JobAsked, JobResponse], None],
    ) -> None:
        self._record, self._rows, self._tell = record, rows, tell
        self.parked: list[JobAsked] = []
        """questions that are answered when more is known"""
        self._log = array("Q")
        """rows in the order in which they came to be on disk"""
        self.log_id = random_id().hex()

    def note(self, rows: Iterable[int]) -> None:
        """Rows are on disk."""
        self._log.extend(rows)

    @property
    def n_noted(self) -> int:
        """How many rows have come to be on disk since this scheduler has the job."""
        return len(self._log)

    def park(self, asked: JobAsked) -> None:
        """Keep a question until more is known."""
        self.parked.append(asked)

    def take_parked(self) -> list[JobAsked]:
        """Return all questions that wait: they are asked again."""
        parked, self.parked = self.parked, []
        return parked

    def take_attending(self, session: ActorRef) -> list[JobAsked]:
        """Return the questions of a client that wait and have the job go on when they are asked again."""
        taken = [asked for asked in self.parked if asked.session is session and asked.request.body == ATTEND]
        self.parked = [asked for asked in self.parked if asked not in taken]
        return taken

    def leave(self, session: ActorRef) -> None:
        """Nobody reads the answers of a client that is gone."""
        self.parked = [asked for asked in self.parked if asked.session is not session]

    def read(self, asked: JobAsked, end: int | None) -> Steps:
        """Answer with the next rows, when the first of them has ended.

        Args:
            end: no row from this one on ends any more; None: all may.
        """
        request = asked.request
        first, is_scan = request.first, request.body == SCAN
        if is_scan:
            count = max(0, min(READ_ROWS, self._rows.rows - first))
        else:
            count = self._rows.ended_from(first, min(request.amount, READ_ROWS))
            if not count and (end is None or first < end):
                self.park(asked)
                return

        most_bytes = 2**62 if is_scan else READ_BYTES
        results = yield lambda: self._record.results(first, count, most_bytes) if count else [], NOT_READ
        if not is_scan:
            results = _without_gaps(results, first)
            if count and not results:  # the first row was to run again before it was read
                self.park(asked)
                return
        self._tell(asked, results_of(request, results, first + count if is_scan else first))

    def read_new(self, asked: JobAsked, *, is_open: bool) -> Steps:
        """Answer with rows in the order in which they came to be on disk."""
        request = asked.request
        if request.body.hex() != self.log_id:
            self._tell(asked, refused(request, "log"))
            return
        rows = self._log[request.first : request.first + min(request.amount, READ_ROWS)]
        if not rows and is_open:
            self.park(asked)
            return

        results, n_rows = yield lambda: self._record.results_of(rows, READ_BYTES), NOT_READ
        self._tell(asked, results_of(request, results, request.first + n_rows))

    def read_failures(self, asked: JobAsked) -> Steps:
        """Answer with rows that have failed, and their arguments."""
        record, request = self._record, asked.request

        def read() -> list[tuple[Result, Row]]:
            failed = record.failures(request.first, min(request.amount, FAILURES_MOST))
            return [(each, record.arguments_of(each.row)) for each in failed]

        found = yield read, "failures cannot be read"
        self._tell(asked, failures_of(request, found))


def _without_gaps(results: list[Result], first: int) -> list[Result]:
    """Return the results of the rows from `first` on up to one that has none: it was to run again."""
    for at, each in enumerate(results):
        if each.row != first:
            return results[:at]
        first += each.n_rows
    return results
