"""JobRequests: answers requests about one job.

Owned by the job, which forwards the requests of the job keeper. A request that cannot be answered yet waits in
`JobReads`. Each change is one order for the job writer. Once the change is on disk, memory is updated and the request
answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from scaler.actors.jobs.answers import changed_by_another, known, other_job, refused, term_of, terms_of, token_of, waits
from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.actors.jobs.job_reads import NOT_READ, JobReads, Steps, attends
from scaler.actors.jobs.job_state import JobState
from scaler.actors.messages.jobs import RequestJob
from scaler.actors.vocabulary.outbox import Outbox
from scaler.errors import ProtocolError
from scaler.jobs.record import (
    CANCELED,
    DONE,
    ENDED_WELL,
    OPEN,
    STOPPED,
    JobObject,
    JobRecord,
    JobSummary,
    JobTerms,
    RowResult,
    RowsDiffer,
)
from scaler.kit import ActorRef
from scaler.texts import counted
from scaler.wire.messages.client import TOKEN_BYTES, JobAnswerKind, JobOpenFlags, JobRequest, JobResponse, JobVerb
from scaler.wire.messages.common import TaskStatus

T = TypeVar("T")

REFUSED_MOST = 1024
"""The most refused calls that are remembered. All ranges of older calls have arrived long ago."""

NOT_KEPT = "it cannot be stored"
NOT_SUBMITTED = "its program ended before it had submitted all rows: run that program again, or forget the job"
NO_PROGRAM = "no program waits for it: a job of map runs only while its program does; run that program again"
CHANGED = "another program has changed the job in the meantime"
RUNNING = "its rows may be running"
ANEW = 'forget the job, or run its program again with on_change="restart"'


class JobRevisionError(Exception):
    """Error for a change by a client that has compared another revision of the job."""


class RequestedJob(Protocol):
    """The methods of the job that `JobRequests` calls."""

    def order(
        self, order: Callable[[], Any], then: Callable[[Any, BaseException | None], None], *, alone: bool = False
    ) -> None:
        """Run an order in the job writer, then call `then` in the job. `alone`: outside of a transaction."""

    def continue_soon(self) -> None:
        """Submit further rows, and pass results to the job writer."""

    def look(self) -> None:
        """Check whether the job must pause, or has ended."""

    def enter(self, state: str, reason: str) -> None:
        """Set the state in memory to the given state, which is on disk."""

    def reopen(self, rows: list[int], n_done: int = 0) -> None:
        """Mark ended rows as open, so that they run again. `n_done`: how many of the rows had succeeded."""

    def is_settling(self) -> bool:
        """Return whether rows submitted before the job ended may still fail."""

    def has_unwritten(self) -> bool:
        """Return whether the result of any ended row is not on disk yet."""

    def has_started(self) -> bool:
        """Return whether this scheduler has assigned a row to a worker."""

    def store(self, objects: list[JobObject]) -> None:
        """Store functions and values of rows in the object store."""

    def end_tasks(self, *, waiting: bool = False) -> None:
        """Cancel submitted rows. `waiting`: only rows that have not started."""

    def stop_now(self) -> None:
        """End the job's actor."""


class JobProgram(NamedTuple):
    """A client that works on a job: it creates, continues or reads the job."""

    label: str
    needs_run: bool = False
    """whether the client has compared its rows, and the job may run"""
    n_calls: int = 0
    """the number of the client's calls that have opened the job"""


class JobRequests:
    """The requests about one job. Only the job writer uses the record."""

    def __init__(
        self,
        job: RequestedJob,
        record: JobRecord,
        job_state: JobState,
        catalog: JobCatalog,
        outbox: Outbox,
        read_options: Callable[[bytes], object],
    ) -> None:
        self._job, self._record, self._state, self._catalog, self._outbox = job, record, job_state, catalog, outbox
        self._read_options = read_options
        self._programs: dict[ActorRef, JobProgram] = {}
        self.reading = JobReads(record, job_state, self._reply, self._park, self._info)
        self._refused_calls: set[bytes] = set()
        self._reported_idle = ""
        """why the job was idle when parked requests were last examined"""
        self.is_closing = False
        """whether the record is being closed or replaced: nothing else is written, and further requests are parked. If
        that succeeds, the job keeper answers the parked requests
        """
        self._verbs: dict[int, Callable[[RequestJob], Steps | None]] = {
            JobVerb.OPEN: self._open,
            JobVerb.ROWS: self._take_rows,
            JobVerb.REPLACE: self._replace_rows,
            JobVerb.OBJECT: self._take_object,
            JobVerb.SEAL: self._seal,
            JobVerb.TRUNCATE: self._truncate,
            **self.reading.verbs,
            JobVerb.READ: self._read,
            JobVerb.RETRY: self._retry,
            JobVerb.CANCEL: self._cancel,
            JobVerb.FORGET: self._forget,
            JobVerb.ATTEND: self._attend,
            JobVerb.LEAVE: self._leave,
            JobVerb.GIVE: self._give,
        }

    @property
    def is_wanted(self) -> bool:
        """Whether a program needs the job to run, or no program has to: the job is unattended and has all its rows."""
        needs_program = self._state.terms.is_attended or not self._state.is_sealed
        return not needs_program or any(each.needs_run for each in self._programs.values())

    @property
    def may_run(self) -> bool:
        """Whether the job is open and, if it needs a program, has one."""
        job_state = self._state
        return job_state.is_open and (bool(self._programs) or (job_state.is_sealed and not job_state.terms.is_attended))

    def why_idle(self) -> str:
        """Return why an open job does not run, as a sentence; empty if the job runs."""
        job_state = self._state
        if not job_state.is_open or job_state.is_fresh or self._programs:
            return job_state.why_paused
        return job_state.why_paused or (
            "" if self.is_wanted else NOT_SUBMITTED if not job_state.is_sealed else NO_PROGRAM
        )

    def ask(self, asked: RequestJob) -> None:
        """Answer a request, now or later."""
        if self.is_closing:
            self.reading.parked.append(asked)
            return
        other = other_job(asked.request, self._record.record_id, self._state.terms)
        if other is not None:
            self._reply(asked, other)
            return
        steps = self._verbs[asked.request.verb](asked)
        if steps is not None:
            self._run_steps(asked, steps)

    def _run_steps(self, asked: RequestJob, steps: Steps, value: Any = None) -> None:
        try:
            order, failing = steps.send(value)
        except StopIteration:
            return

        def then(value: Any, error: BaseException | None) -> None:
            if error is None:
                self._run_steps(asked, steps, value)
                return
            steps.close()
            for each in (asked, *self._take_following(asked.request)):
                self._reply(each, _failed(each.request, error, failing))
            self._job.continue_soon()

        self._job.order(order, then)

    def _take_following(self, failed: JobRequest) -> list[RequestJob]:
        """Refuse further rows of a call that has a failed request. Return the parked requests with rows of the call."""
        if failed.verb != JobVerb.ROWS:
            return []
        self._refuse(failed.body[:TOKEN_BYTES])
        return self.reading.take_rows(failed.body[:TOKEN_BYTES])

    def _refuse(self, call: bytes) -> None:
        if len(self._refused_calls) >= REFUSED_MOST:
            self._refused_calls.clear()
        self._refused_calls.add(call)

    def answer_parked(self) -> None:
        """Try again to answer the parked requests, since the job has changed."""
        for asked in self.reading.take_parked():
            self.ask(asked)
        self._reported_idle = self.why_idle()

    def _reply(self, asked: RequestJob, response: JobResponse) -> None:
        self._catalog.answered(asked)
        self._outbox.put(asked.peer, response)

    def _park(self, asked: RequestJob) -> None:
        """Keep a request until it can be answered. If the job is idle, report the reason to the client."""
        why = self.why_idle()
        if not self._state.is_sealed and why == NOT_SUBMITTED:
            self._reply(asked, refused(asked.request, why))
            return
        self.reading.parked.append(asked)
        if why or self._reported_idle:
            self._outbox.put(asked.peer, waits(asked.request, why))

    # Programs

    def _note_program(self, asked: RequestJob, *, needs_run: bool) -> None:
        label, ran, n_calls = self._programs.get(asked.session) or JobProgram(asked.program)
        is_call = asked.request.verb == JobVerb.OPEN and not asked.request.amount
        self._programs[asked.session] = JobProgram(label, ran or needs_run, n_calls + is_call)
        if needs_run and not ran:
            self._job.continue_soon()

    def _other_programs(self, asked: RequestJob) -> str:
        return ", ".join(each.label or "?" for key, each in self._programs.items() if key is not asked.session)

    def _is_alone(self, asked: RequestJob) -> bool:
        """Return whether only one call, of this client, works on the job."""
        mine = self._programs.get(asked.session)
        return not self._other_programs(asked) and (mine is None or mine.n_calls <= 1)

    def _open(self, asked: RequestJob) -> Steps:
        flags, job_state = asked.request.amount, self._state
        if flags & JobOpenFlags.NEW_VERSION:
            yield from self._check_and_begin_version(asked)
            return
        if flags & JobOpenFlags.RUN and self._why_no_row_runs():
            self._reply(asked, refused(asked.request, self._why_no_row_runs()))
            return
        if flags & JobOpenFlags.RETRY and self._job.is_settling():
            self._park_or_refuse(asked)
            return
        self._note_program(asked, needs_run=False)
        record = self._record
        if flags & JobOpenFlags.RUN:
            job_state.max_failures = term_of(asked.request, "max_failures", job_state.max_failures)
            keep_seconds = term_of(asked.request, "keep_seconds", None)

            def run() -> tuple[JobTerms, tuple[list[int], str, str]]:
                self._check_revision(asked.request.first)
                if keep_seconds is not None:
                    record.keep_for(keep_seconds)
                if not record.is_sealed and token_of(asked.request) != record.terms.token:
                    record.note_compared()
                return record.terms, self._run_again(flags & JobOpenFlags.RETRY)

            job_state.terms, reopened = yield run, "its failed rows cannot be reopened"
            self._note_program(asked, needs_run=True)
            self._has_reopened(*reopened)

        def read() -> dict[str, Any]:
            ranges = [[each.first, each.n_rows, each.digest.hex(), each.n_open] for each in record.ranges.values()]
            objects, damaged = [each.hex() for each in record.object_ids()], sorted(record.damaged)
            return {"ranges": ranges, "objects": objects, "damaged": damaged, "revision": record.revision}

        more = yield read, "the job cannot be read"
        self._reply_known(asked, **more)

    def _check_revision(self, revision: int) -> None:
        """Raise `JobRevisionError` unless a client has compared this revision. Called by the job writer."""
        if self._record.revision != revision:
            raise JobRevisionError(CHANGED)

    def _check_may_replace(self, revision: int) -> None:
        """Raise `JobRevisionError` if another call relies on the known rows. Called by the job writer."""
        self._check_revision(revision)
        if self._record.is_compared:
            raise JobRevisionError(CHANGED)

    def _why_no_row_runs(self) -> str:
        """Return why no row may run: the disk has lost which at-most-once rows have started. Empty if rows may run."""
        lost = self._record.lost if self._state.is_at_most_once else ""
        return f"{lost}; rows may have started, and have the option at_most_once: {ANEW}" if lost else ""

    def _why_no_rerun(self) -> str:
        """Return why rows cannot run again unless their program submits them; empty if they can."""
        damaged = ", ".join(sorted(self._record.damaged))
        why = f"{damaged} on disk is damaged: run its program again with the same rows, which rewrites it"
        return self._why_no_row_runs() or (why if damaged else "")

    def _why_no_retry(self) -> str:
        """Return why no failed row of a job with `at_most_once` may run again, if each such row may have started."""
        n_failed = counted(self._state.rows.failed, "failed row")
        return f"{n_failed} cannot run again: the option at_most_once forbids it for rows that may have started"

    def _run_again(self, failed_too: int) -> tuple[list[int], str, str]:
        """Reopen failed rows, and a job that was cancelled or has stopped. Called by the job writer."""
        record = self._record
        if record.lost:
            record.forget_lost()  # its program has been told
        rows = self._reopen_failed() if failed_too and record.failed else []
        has_open = rows or not record.is_sealed or record.done + record.failed < record.rows
        if record.state in (CANCELED, STOPPED) or (record.state == DONE and has_open):
            record.move(OPEN)
        return rows, record.state, record.reason

    def _reopen_failed(self) -> list[int]:
        """Reopen failed rows; with `at_most_once` only those that never reached a worker. Called by the job writer."""
        return self._record.reopen_failed(TaskStatus.NO_WORKER if self._state.is_at_most_once else None)

    def _has_reopened(self, rows: list[int], state: str, reason: str) -> None:
        self._job.reopen(rows)
        self._job.enter(state, reason)
        self._job.look()
        self._job.continue_soon()

    def _attend(self, asked: RequestJob) -> None:
        self._note_program(asked, needs_run=False)
        self._reply_known(asked)

    def _park_or_refuse(self, asked: RequestJob) -> None:
        if self._state.trouble:
            self._reply(asked, refused(asked.request, self._state.trouble))
        else:
            self._park(asked)

    def _info(self) -> dict[str, Any]:
        return self.reading.info(self.why_idle(), (each.label for each in self._programs.values()))

    def _reply_known(self, asked: RequestJob, **more: Any) -> None:
        self._reply(asked, known(asked.request, {**self._info(), **more}))

    def _reply_stored(self, asked: RequestJob) -> None:
        self._reply_known(asked)
        self.answer_parked()
        self._job.continue_soon()

    # Rows and what they need

    def _take_rows(self, asked: RequestJob) -> Steps:
        request, record = asked.request, self._record
        why = self._catalog.why_full() or ("" if len(request.frames) == 2 else "its rows arrived incomplete")
        if why:
            for each in (asked, *self._take_following(request)):
                self._reply(each, refused(each.request, why))
            return
        self._note_program(asked, needs_run=True)
        digests, block = request.frames
        call, digest = request.body[:TOKEN_BYTES], request.body[TOKEN_BYTES:]
        refused_calls = self._refused_calls

        def add() -> tuple[int, int, int] | None:
            if call in refused_calls:
                raise RowsDiffer(request.first, "earlier rows of this call differ from the stored rows")
            if request.first > record.rows:
                return None
            try:
                n_rows = record.rows
                return (
                    n_rows,
                    record.add_range(request.first, request.amount, digest, bytes(digests), block),
                    record.size_bytes,
                )
            except RowsDiffer:
                self._refuse(call)
                raise

        added = yield add, NOT_KEPT
        if added is None:  # a small request overtakes large ones: it is looked at again when these are kept
            self.reading.parked.append(asked)
            return
        before, n_new, size_bytes = added
        if n_new:
            self._state.rows.add(before, n_new)
        self._state.size_bytes = size_bytes
        self._job.look()
        self._reply_stored(asked)

    def _replace_rows(self, asked: RequestJob) -> Steps:
        """Replace the arguments of known rows. Refused while rows run, as old results would count for new arguments."""
        request, record = asked.request, self._record
        if self._job.is_settling():
            self._park_or_refuse(asked)
            return
        if self.is_running or len(request.frames) != 2:
            self._reply(asked, refused(request, RUNNING, JobAnswerKind.CONFLICT, request.first))
            return
        digests, block = request.frames
        token, digest = request.body[:TOKEN_BYTES], request.body[TOKEN_BYTES:]
        once = self._state.is_at_most_once

        def replace_rows() -> tuple[list[int], int, int]:
            if record.has_done(token):
                return [], 0, record.revision
            self._check_may_replace(request.amount)
            record.note_request(token)
            ended = record.ended_rows(request.first)
            rows = request.first, digest, bytes(digests), block
            dropped = record.replace_range(*rows, keep_uncompared=True, at_most_once=once)
            return dropped, sum(ended[row - request.first] == ENDED_WELL for row in dropped), record.revision

        dropped, n_done, revision = yield replace_rows, NOT_KEPT
        self._job.reopen(dropped, n_done)
        self._reply_known(asked, revision=revision)
        self._job.continue_soon()

    @property
    def is_running(self) -> bool:
        """Whether rows may be at workers."""
        return self._state.is_open and self.is_wanted

    def _take_object(self, asked: RequestJob) -> Steps:
        request = asked.request
        new = JobObject(request.body, request.amount, "", tuple(request.frames))

        def add() -> JobTerms:
            self._record.add_object(new)
            return self._record.terms

        self._state.terms = yield add, NOT_KEPT
        self._job.store([new])
        self._reply_stored(asked)

    def _seal(self, asked: RequestJob) -> Steps:
        record, n_rows = self._record, asked.request.first
        yield lambda: record.seal(n_rows), NOT_KEPT
        self._state.is_sealed = True
        self._job.look()
        self._reply_stored(asked)

    def _truncate(self, asked: RequestJob) -> Steps:
        if self.is_running:
            self._reply(asked, refused(asked.request, RUNNING, JobAnswerKind.CONFLICT, asked.request.first))
            return
        record, request = self._record, asked.request

        def truncate() -> int:
            if not record.has_done(request.body):
                self._check_may_replace(request.amount)
                record.note_request(request.body)
                record.truncate(request.first, self._state.is_at_most_once)
            return record.revision

        revision = yield truncate, NOT_KEPT
        self._restart(asked, revision)

    def _restart(self, asked: RequestJob, revision: int) -> None:
        """End this actor; the next one opens the record and rebuilds its tables."""
        self.is_closing = True
        self._catalog.fresh.add(self._record.folder)
        self._reply_known(asked, revision=revision)
        self._job.stop_now()

    def _why_no_version(self, asked: RequestJob) -> str:
        """Return why a new version cannot begin now, as a sentence; empty if it can."""
        others, job_state = self._other_programs(asked), self._state
        if others:
            return f"{others} works on it at the moment: wait for its end, or stop it"
        if asked.request.amount & JobOpenFlags.SAME_ROWS:
            return self._why_no_rerun() or ("" if job_state.is_sealed else NOT_SUBMITTED)
        runs_alone = job_state.is_open and job_state.is_sealed and not job_state.terms.is_attended
        has_started = job_state.rows.done or job_state.rows.failed or (runs_alone and self._job.has_started())
        return "its rows have started" if asked.request.amount & JobOpenFlags.IF_NONE_ENDED and has_started else ""

    def _new_terms(self, asked: RequestJob) -> JobTerms | None:
        """Return the terms of a new version. If the version cannot begin, or has begun, answer so and return None."""
        request, former, same_rows = asked.request, self._state.terms, asked.request.amount & JobOpenFlags.SAME_ROWS
        why = self._why_no_version(asked)
        if why:
            self._reply(asked, refused(request, why))
            return None
        try:
            work = former.work if request.amount & JobOpenFlags.SAME_WORK else former.version + 1
            terms = replace(terms_of(asked, former.owner, self._read_options, former.keep_seconds), work=work)
        except (ValueError, ProtocolError) as error:
            self._reply(asked, refused(request, f"its terms cannot be read: {error}"))
            return None
        if terms.token and terms.token == former.token:  # it has begun, and the answer was lost
            self._reply_known(asked, revision=self._record.revision)
            return None
        if same_rows and request.first != former.work:
            self._reply(asked, changed_by_another(request, former))
            return None
        return terms

    def _check_and_begin_version(self, asked: RequestJob) -> Steps:
        """Begin a new version. Refused for a new function and the same rows if no failed row may run again."""
        record, job_state = self._record, self._state
        if asked.request.amount & JobOpenFlags.SAME_ROWS and job_state.is_at_most_once and job_state.state == DONE:
            can_run = yield lambda: not record.failed or record.has_failed(TaskStatus.NO_WORKER), NOT_READ
            if not can_run:
                self._reply(asked, refused(asked.request, self._why_no_retry()))
                return
        self._begin_version(asked)

    def _begin_version(self, asked: RequestJob) -> None:
        request, record, job_state, terms = asked.request, self._record, self._state, self._new_terms(asked)
        if terms is None:
            return
        flags = request.amount
        has_same_rows = bool(flags & JobOpenFlags.SAME_ROWS)
        self.is_closing = True
        once = job_state.is_at_most_once and not flags & JobOpenFlags.DROP
        sentence = b"it had started in an earlier version of the job, and its option at_most_once forbids another run"

        def change() -> int:
            if not has_same_rows:  # else the client has compared no rows
                self._check_revision(request.first)
            if once and record.marked:
                record.add_results([RowResult(row, TaskStatus.CANCELED, (sentence,)) for row in sorted(record.marked)])
            if flags & JobOpenFlags.DROP:
                record.drop_results()
                record.forget_lost()
            record.add_version(terms)
            if not has_same_rows:
                record.unseal()
            return record.revision

        def then(revision: int | None, error: BaseException | None) -> None:
            if revision is not None:
                if has_same_rows and job_state.summary().runs_alone:
                    self._catalog.given.add(record.folder)
                self._restart(asked, revision)
                return
            self._stay_open(asked, _failed(request, error or ValueError(), NOT_KEPT))

        self._job.order(change, then)

    # Reading

    def _read(self, asked: RequestJob) -> Steps:
        if attends(asked.request):
            self._note_program(asked, needs_run=True)
        return self.reading.read(asked)

    # Changes of its state

    def _retry(self, asked: RequestJob) -> Steps:
        if self._job.is_settling():
            self._park_or_refuse(asked)
            return
        record, token, why = self._record, asked.request.body, self._why_no_rerun()
        if why:
            self._reply(asked, refused(asked.request, why))
            return

        def retry() -> tuple[list[int], str, str]:
            if token and record.has_done(token):
                return [], record.state, record.reason
            if token:
                record.note_request(token)
            return self._run_again(1)

        rows, state, reason = yield retry, NOT_KEPT
        if self._state.rows.failed and state == DONE and not rows:
            self._reply(asked, refused(asked.request, self._why_no_retry()))
            return
        terms = self._state.terms
        if self._state.is_sealed and terms.is_attended:  # a program that only retries submits no rows
            self._note_program(asked, needs_run=True)
        self._has_reopened(rows, state, reason)
        self._reply_stored(asked)

    def _cancel(self, asked: RequestJob) -> Steps:
        record = self._record

        def cancel() -> tuple[str, str]:
            if record.state == OPEN:
                record.move(CANCELED, "by its user")
            return record.state, record.reason

        state = yield cancel, NOT_KEPT
        self._job.enter(*state)
        self._reply_stored(asked)

    def _forget(self, asked: RequestJob) -> None:
        folder, record, rows = self._catalog.folder, self._record, self._state.rows
        has_ended = rows.done or rows.failed or self._job.has_unwritten()
        if asked.request.amount and (has_ended or self._state.is_sealed or not self._is_alone(asked)):
            self._reply(asked, refused(asked.request, "rows have ended, or another call works on it"))
            return

        def is_gone(_nothing: None) -> None:
            self._catalog.seen.pop(record.folder, None)

        self._close(asked, lambda: folder.remove(record), is_gone)

    def _give(self, asked: RequestJob) -> None:
        folder, record, owner = self._catalog.folder, self._record, asked.request.body.decode(errors="replace")
        if owner == self._state.terms.owner:  # it was given before, and the answer was lost
            self._reply_known(asked)
            return
        if self._state.lockout is not None and self._job.is_settling():
            self._park(asked)
            return
        if self._state.is_open and self._state.lockout is None:
            self._reply(asked, refused(asked.request, "the job runs: cancel it, transfer it, and resume it with retry"))
            return

        def is_given(given: JobSummary) -> None:
            seen = self._catalog.seen
            seen.pop(record.folder, None)
            place = folder.place_of(given.terms.owner, given.terms.name)
            seen[place] = self._catalog.shown(given)
            if given.runs_alone:
                self._catalog.given.add(place)

        self._close(asked, lambda: folder.give(record, owner), is_given)

    def _close(self, asked: RequestJob, order: Callable[[], T], is_done: Callable[[T], None]) -> None:
        """Have the job writer call `order`, which moves or removes the record. If that fails, the job continues."""
        self.is_closing = True

        def then(value: T, error: BaseException | None) -> None:
            if error is not None:
                self._stay_open(asked, refused(asked.request, str(error)))
                return
            is_done(value)
            self._reply_known(asked)
            self._job.stop_now()

        self._job.order(order, then, alone=True)

    def _stay_open(self, asked: RequestJob, answer: JobResponse) -> None:
        """Refuse a request whose change to the record has failed, and continue."""
        self.is_closing = False
        self._reply(asked, answer)
        self.answer_parked()
        self._job.continue_soon()

    def _leave(self, asked: RequestJob) -> None:
        for left in self.reading.take_attending(asked.session):
            self._reply(left, refused(left.request, "its client no longer needs the job"))
        self._detach(asked.session)
        self._reply_known(asked)

    def leave(self, session: ActorRef) -> None:
        """Forget a client that has left."""
        self.reading.leave(session)
        self._detach(session)

    def _detach(self, session: ActorRef) -> None:
        if self._programs.pop(session, None) is not None and self._state.is_open and not self.is_wanted:
            # What runs goes on to its end, and what only waits does not begin.
            self._job.end_tasks(waiting=True)
            self.answer_parked()


def _failed(request: JobRequest, error: BaseException, failing: str) -> JobResponse:
    """Return the answer to a request whose order has failed. `failing`: what has failed, for people."""
    if isinstance(error, RowsDiffer):
        return refused(request, str(error), JobAnswerKind.CONFLICT, error.row)
    if isinstance(error, JobRevisionError):
        return refused(request, str(error), JobAnswerKind.CHANGED)
    return refused(request, f"{failing}: {error}")
