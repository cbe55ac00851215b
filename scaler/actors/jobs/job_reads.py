"""JobReads: answers the requests of clients that read a job, and keeps requests that cannot be answered yet.

Used by the job, and by the view of a job that another program has open. Results are read from the record, so only
results on disk are announced.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, TypeAlias

from scaler.actors.jobs.answers import failures_of, info_of, known, refused, results_of
from scaler.actors.jobs.job_state import JobState
from scaler.actors.messages.jobs import RequestJob
from scaler.ids import random_id
from scaler.jobs.record import JobRecord, RowResult, n_bytes
from scaler.jobs.tables.schema import RecordError
from scaler.jobs.values import RowArguments
from scaler.kit import ActorRef
from scaler.wire.messages.client import AT_END, VERSIONS, JobRequest, JobResponse, JobVerb

READ_ROWS, READ_BYTES = 4096, 4 * 1024 * 1024
"""Limits of the results in one answer, in this order: rows, bytes. A single result of more bytes is sent alone."""

FAILURES_MOST = 1000

ATTEND, SCAN = b"a", b"s"
"""Two bodies of a `READ` request: the job has to run for the client; answer at once, only with rows that have ended."""

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
        self._log = array("Q")
        """rows in the order in which their results were written to disk"""
        self.log_id = random_id().hex()
        self.verbs: dict[int, Callable[[RequestJob], Steps | None]] = {
            verb: partial(answer, self) for verb, answer in _VERBS.items()
        }

    def renew(self, record: JobRecord, job_state: JobState) -> None:
        """Replace the record and the state, because another program has changed the job."""
        self._record, self._state = record, job_state

    def note(self, rows: Iterable[int]) -> None:
        """Add rows to the list that `read_new` reads, because their results are on disk."""
        self._log.extend(rows)

    @property
    def n_logged(self) -> int:
        """The number of results written to disk since this scheduler opened the job."""
        return len(self._log)

    def take_parked(self) -> list[RequestJob]:
        """Remove and return all pending requests."""
        parked, self.parked = self.parked, []
        return parked

    def take_attending(self, session: ActorRef) -> list[RequestJob]:
        """Remove and return those pending requests of a client that need the job to run."""
        taken = [asked for asked in self.parked if asked.session is session and asked.request.body == ATTEND]
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
        """Answer with the results of rows from the requested row on, as soon as that row has ended."""
        request, rows = asked.request, self._state.rows
        first, is_scan = request.first, request.body == SCAN
        if is_scan:
            count = max(0, min(READ_ROWS, rows.rows - first))
        else:
            count = rows.ended_from(first, min(request.amount, READ_ROWS))
            if not count and self._may_end(first):
                self._park(asked)
                return

        results = yield lambda: self._record.results(first, count, READ_BYTES) if count else [], NOT_READ
        last = first + count
        if n_bytes(results) >= READ_BYTES:  # later rows were not read
            last = results[-1].row + results[-1].n_rows
        results = self._valid(results)
        if not is_scan:
            results = _without_gaps(results, first)
            if count and not results:  # the first row was reopened before it was read
                self._park(asked)
                return
        self._reply(asked, results_of(request, results, last if is_scan else first))

    def _may_end(self, row: int) -> bool:
        """Return whether `row`, or a later row, may still end, given the state of the job."""
        job_state = self._state
        return job_state.is_open and (not job_state.is_sealed or row < job_state.rows.rows)

    def _valid(self, results: list[RowResult]) -> list[RowResult]:
        again = self.to_run_again
        return [each for each in results if each.row not in again] if again else results

    def read_new(self, asked: RequestJob) -> Steps:
        """Answer with results in the order in which they were written to disk."""
        request = asked.request
        if request.body.hex() != self.log_id:
            self._reply(asked, refused(request, "log"))
            return
        rows = self._log[request.first : request.first + min(request.amount, READ_ROWS)]
        if not rows and self._state.is_open:
            self._park(asked)
            return

        results, n_rows = yield lambda: self._record.results_of(rows, READ_BYTES), NOT_READ
        self._reply(asked, results_of(request, self._valid(results), request.first + n_rows))

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
        self._reply(asked, info_of(asked.request, info))

    def info(self, reason: str, programs: Iterable[str]) -> dict[str, Any]:
        """Return the state of the job, for clients. `reason`: why the job is idle, unless the record has a reason."""
        job_state, labels = self._state, list(programs)
        return {
            **job_state.info(), "reason": job_state.reason or reason, "log": self.log_id, "logged": self.n_logged,
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
        self._reply(asked, failures_of(request, found))

    def read_digests(self, asked: RequestJob) -> Steps:
        """Answer with the digests of the rows of a range, and one byte per row that says whether the row has ended."""
        record, first = self._record, asked.request.first
        found = yield lambda: (record.row_digests(first), bytes(record.ended_rows(first))), "digests cannot be read"
        self._reply(asked, known(asked.request, found))

    def read_arguments(self, asked: RequestJob) -> Steps:
        """Answer with the arguments of one row (block, object ids, frames) and with facts about its call."""
        record, row = self._record, asked.request.first
        found = yield lambda: (record.arguments_of(row), _call_of(record, row)), "arguments cannot be read"
        (payload, object_ids, frames), call = found
        self._reply(asked, known(asked.request, (payload, object_ids, *frames), call))

    def read_stored(self, asked: RequestJob) -> Steps:
        """Answer with the frames of a function, or of a value that rows use."""
        object_id = asked.request.body
        found = yield lambda: self._record.object(object_id), "a part of the job cannot be read"
        self._reply(asked, known(asked.request, found.frames))


_VERBS: dict[int, Callable[[JobReads, RequestJob], Steps | None]] = {
    JobVerb.READ: JobReads.read,
    JobVerb.READ_NEW: JobReads.read_new,
    JobVerb.SHOW: JobReads.show,
    JobVerb.FAILURES: JobReads.read_failures,
    JobVerb.DIGESTS: JobReads.read_digests,
    JobVerb.ARGUMENTS: JobReads.read_arguments,
    JobVerb.STORED: JobReads.read_stored,
}


def only_reads(request: JobRequest) -> bool:
    """Return whether a request neither changes a job nor needs it to run."""
    return request.verb in _VERBS and not (request.verb == JobVerb.READ and request.body == ATTEND)


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
