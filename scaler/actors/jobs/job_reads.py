"""JobReads: answers the requests of clients that read a job, and keeps requests that cannot be answered yet.

Used by the job, and by the view of a job that another program has open. Results are read from the record, so only
results on disk are announced.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, TypeAlias

from scaler.actors.jobs.answers import known
from scaler.actors.jobs.job_state import JobState
from scaler.actors.messages.jobs import RequestJob
from scaler.jobs.record import JobRecord, RowResult
from scaler.jobs.tables.schema import RecordError
from scaler.jobs.values import RowArguments, pack_sizes
from scaler.kit import ActorRef
from scaler.wire.messages.client import AT_END, VERSIONS, JobAnswerKind, JobReadFlags, JobRequest, JobResponse, JobVerb

READ_ROWS, READ_BYTES = 4096, 4 * 1024 * 1024
"""Limits of the results in one answer, in this order: rows, bytes. A single result of more bytes is sent alone."""

FAILURES_MOST = 1000

RESULT_HEAD = struct.Struct("<QIBI")
"""The head of the result of some rows: first row, number of rows, status, number of frames. The frame sizes follow."""

NOT_READ = "results cannot be read"

Steps: TypeAlias = Generator[tuple[Callable[[], Any], str], Any, None]
"""A generator that yields pairs (an order for the job writer, the error text if it fails) and receives each result."""


class JobReads:
    """Answers the requests of clients that read one job.

    Args:
        park: keeps a request until it can be answered, or refuses it.
        info: returns the state of the job, for clients.
    """

    def __init__(
        self,
        record: JobRecord,
        job_state: JobState,
        reply: Callable[[RequestJob, JobResponse], None],
        park: Callable[[RequestJob], None],
        info: Callable[[], dict[str, Any]],
    ) -> None:
        self._reply, self._park, self._info = reply, park, info
        self.renew(record, job_state)
        self.parked: list[RequestJob] = []
        self.to_run_again: set[int] = set()
        """rows that run again because their results on disk are damaged; these results are not returned"""
        self.verbs: dict[int, Callable[[RequestJob], Steps | None]] = {
            verb: partial(answer, self) for verb, answer in _VERBS.items()
        }

    def renew(self, record: JobRecord, job_state: JobState) -> None:
        """Replace the record and the state, because another program has changed the job."""
        self._record, self._state = record, job_state

    def take_parked(self) -> list[RequestJob]:
        """Remove and return all pending requests."""
        parked, self.parked = self.parked, []
        return parked

    def take_attending(self, session: ActorRef) -> list[RequestJob]:
        """Remove and return those pending requests of a client that need the job to run."""
        taken = [asked for asked in self.parked if asked.session is session and attends(asked.request)]
        self.parked = [asked for asked in self.parked if asked not in taken]
        return taken

    def take_rows(self, call: bytes) -> list[RequestJob]:
        """Remove and return the pending requests that submit rows of a call. `call`: the token of the call."""
        taken = [
            each for each in self.parked if each.request.verb == JobVerb.ROWS and each.request.body.startswith(call)
        ]
        self.parked = [asked for asked in self.parked if asked not in taken]
        return taken

    def leave(self, session: ActorRef) -> None:
        """Drop the requests of a client that has left."""
        self.parked = [asked for asked in self.parked if asked.session is not session]

    def read(self, asked: RequestJob) -> Steps:
        """Answer with the results of rows from the requested position on, as soon as there is one."""
        request, flags = asked.request, asked.request.amount
        at, rows = self._rows_at(request.first, flags)
        if not rows and not flags & JobReadFlags.ENDED_ONLY and self._may_end(request.first, flags):
            self._park(asked)
            return

        results, n_rows = yield lambda: self._record.results_of(rows, READ_BYTES), NOT_READ
        results = [each for each in results if each.row not in self.to_run_again]
        if not flags & (JobReadFlags.BY_LOG | JobReadFlags.ENDED_ONLY):
            results = _without_gaps(results, at)
            n_rows = sum(each.n_rows for each in results)
            if rows and not results:  # the first row was reopened before it was read
                self._park(asked)
                return
        self._reply(asked, _rows_of(request, results, at + n_rows))

    def _rows_at(self, position: int, flags: int) -> tuple[int, list[range]]:
        """Return a position at which to read, and the rows there that may have ended, at most `READ_ROWS` rows."""
        if flags & JobReadFlags.BY_LOG:
            at = self._state.log.place(position)
            return at, self._state.log.rows(at, READ_ROWS)
        rows = self._state.rows
        if flags & JobReadFlags.ENDED_ONLY:
            count = max(0, min(READ_ROWS, rows.rows - position))
        else:
            count = rows.ended_from(position, READ_ROWS)
        return position, [range(position, position + count)] if count else []

    def _may_end(self, position: int, flags: int) -> bool:
        """Return whether there may be results at a position later, given the state of the job."""
        job_state = self._state
        is_after_last = job_state.is_sealed and position >= job_state.rows.rows and not flags & JobReadFlags.BY_LOG
        return job_state.is_open and not is_after_last

    def show(self, asked: RequestJob) -> Steps:
        """Answer with the state of the job: now or, if the request says so, once the job has ended."""
        amount = asked.request.amount
        if amount == AT_END and self._state.is_open:
            self._park(asked)
            return
        info, record = self._info(), self._record
        if amount == VERSIONS and len(record.versions) > 1:
            ended = yield record.counts_by_version, NOT_READ
            info["versions"] = [[each.version, ended.get(each.version, 0), each.program, each.created]
                                for each in record.versions]  # fmt: skip
        self._reply(asked, known(asked.request, info))

    def info(self, reason: str, programs: Iterable[str]) -> dict[str, Any]:
        """Return the state of the job, for clients. `reason`: why the job is idle, unless the record has a reason."""
        job_state, labels = self._state, list(programs)
        return {
            **job_state.info(), "reason": job_state.reason or reason,
            "readers": len(labels), "programs": labels, "lost": self._record.lost,
            "record": self._record.record_id.hex(), "version": job_state.terms.version,
        }  # fmt: skip

    def read_failures(self, asked: RequestJob) -> Steps:
        """Answer with failed rows and their arguments."""
        record, request = self._record, asked.request

        def read() -> list[tuple[RowResult, RowArguments]]:
            failed = record.failures(request.first, min(request.amount, FAILURES_MOST))
            return [(each, _arguments_of(record, each.row)) for each in failed]

        found = yield read, "failures cannot be read"
        each = [RowResult(result.row, result.status, (*result.frames, row.payload)) for result, row in found]
        self._reply(asked, _rows_of(request, each, request.first))

    def read_digests(self, asked: RequestJob) -> Steps:
        """Answer with the digests of the rows of a range, and one byte per row that says whether the row has ended."""
        record, first = self._record, asked.request.first
        found = yield lambda: (record.row_digests(first), bytes(record.ended_rows(first))), "digests cannot be read"
        self._reply(asked, known(asked.request, frames=found))

    def read_arguments(self, asked: RequestJob) -> Steps:
        """Answer with the arguments of one row (block, object ids, frames) and with facts about its call."""
        record, row = self._record, asked.request.first
        found = yield lambda: (record.arguments_of(row), _call_of(record, row)), "arguments cannot be read"
        (payload, object_ids, frames), call = found
        self._reply(asked, known(asked.request, call, (payload, object_ids, *frames)))

    def read_stored(self, asked: RequestJob) -> Steps:
        """Answer with the frames of a function, or of a value that rows use."""
        object_id = asked.request.body
        found = yield lambda: self._record.object(object_id), "a part of the job cannot be read"
        self._reply(asked, known(asked.request, frames=found.frames))


_VERBS: dict[int, Callable[[JobReads, RequestJob], Steps | None]] = {
    JobVerb.READ: JobReads.read,
    JobVerb.SHOW: JobReads.show,
    JobVerb.FAILURES: JobReads.read_failures,
    JobVerb.DIGESTS: JobReads.read_digests,
    JobVerb.ARGUMENTS: JobReads.read_arguments,
    JobVerb.STORED: JobReads.read_stored,
}


def only_reads(request: JobRequest) -> bool:
    """Return whether a request neither changes a job nor needs it to run."""
    return request.verb in _VERBS and not attends(request)


def attends(request: JobRequest) -> bool:
    """Return whether a request reads results, and needs the job to run."""
    return request.verb == JobVerb.READ and bool(request.amount & JobReadFlags.ATTEND)


def _rows_of(request: JobRequest, results: Iterable[RowResult], position: int) -> JobResponse:
    """Return an answer with the results of rows. `position`: where the next request continues."""
    heads: list[bytes] = []
    bodies: list[Any] = []
    count = 0
    for row, status, frames, n_rows, _ in results:
        heads += (RESULT_HEAD.pack(row, n_rows, status, len(frames)), pack_sizes(frames))
        bodies += frames
        count += n_rows
    blob = b"".join(bodies)
    frames = (blob,) if blob else ()
    return JobResponse(request.number, JobAnswerKind.ROWS, position, count, b"".join(heads), "", frames)


def _call_of(record: JobRecord, row: int) -> dict[str, Any]:
    """Return facts about a row: its call in the latest version, and which version produced the result of the row."""
    terms, ran = record.terms, record.version_of(row)
    return {
        "task_id": (terms.prefix + row.to_bytes(8, "big")).hex(), "function_id": terms.function_id.hex(),
        "options": terms.options.hex(), "name": terms.task_name or terms.function, "version": terms.version, "ran": ran,
    }  # fmt: skip


def _arguments_of(record: JobRecord, row: int) -> RowArguments:
    """Return the arguments of a row, or empty arguments if they are damaged on disk."""
    try:
        return record.arguments_of(row)
    except RecordError:
        return RowArguments(b"")


def _without_gaps(results: list[RowResult], first: int) -> list[RowResult]:
    """Return the results of the rows from `first` to the last row before a gap. A row without a result runs again."""
    for at, each in enumerate(results):
        if each.row != first:
            return results[:at]
        first += each.n_rows
    return results
