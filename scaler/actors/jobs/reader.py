"""JobReader: answers requests about a job that another program has open, from the record that the other program writes.

Takes the place of the job's own actor. Receives messages from the job keeper and the job writer. Sends to these and,
through the outbox, to clients. A request that would change the job is refused, and the refusal names the other program.
When the other program has released the job's lock, or the job was removed, this actor ends. The next actor of the job
receives the open requests.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from scaler.actors.jobs.answers import known, other_job, refused, waits
from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.actors.jobs.job_reads import JobReads, Steps, only_reads
from scaler.actors.jobs.job_requests import NO_PROGRAM
from scaler.actors.jobs.job_state import JobState
from scaler.actors.messages.jobs import JobDue, JobEnded, OrderDone, OwnersChanged, ReaderLeft, RequestJob
from scaler.actors.messages.tasks import BalancerRestarted
from scaler.actors.vocabulary.outbox import Outbox
from scaler.jobs.folder import UNREADABLE, JobFolder, JobInUseError
from scaler.jobs.record import JobRecord
from scaler.kit import Actor, ActorRef, handles
from scaler.wire.messages.client import JobAnswerKind, JobRequest, JobResponse, JobVerb

LOOK_SECONDS = 0.5
"""While a request waits, the record is read again at this interval."""

IDLE_SECONDS = 30.0
"""The record is closed after one to two intervals of this length without a request."""

ENDING_SECONDS = 3.0
"""How long requests wait if the other program seems about to release the job's lock, or to take it again."""


def needs_program(job_state: JobState) -> bool:
    """Return whether the job is a map that runs only while its program runs. Such a job is read without a lock."""
    return job_state.is_open and job_state.is_sealed and job_state.terms.is_attended


class LeftJobError(Exception):
    """Raised for a job that is only read. This program takes no lock, because the job's own program may need it."""


class JobFreeError(Exception):
    """Signals that no other program has the job open, or that the job was removed."""


class JobView:
    """Answers requests about a job that another program has open. Reads the record, in the job writer's thread."""

    def __init__(self, folder: JobFolder, place: Path) -> None:
        self._folder, self._place = folder, place
        self._record: JobRecord | None = None
        self._program = ""
        self._ending_since: float | None = None
        """when the other program, or its scheduler, was found to have ended; None while both run"""

    _state: JobState
    _reading: JobReads
    _answer: JobResponse
    _is_left = False
    """whether no program had the job open at the last request"""

    def answer(self, asked: RequestJob, now: float) -> JobResponse:
        """Return the answer to a request, or a response of the kind `WAITS` if the request has to wait.

        Args:
            now: the time of the actors' clock, in seconds.

        Raises:
            JobFreeError: if no other program has the job open. Requests that only read are still answered if the job's
                scheduler may be starting again, or if the job is a map whose program may return.
            Exception: one of `UNREADABLE`, if the job cannot be read.
        """
        request, used = asked.request, self._folder.in_use_error(self._place)
        is_ending = self._is_ending(used, now)
        if not self._place.is_dir():
            raise JobFreeError
        if request.verb == JobVerb.LEAVE:
            return known(request)
        record, reading = self._renewed()
        try:
            verb = reading.verbs[request.verb] if only_reads(request) else None
            self._is_left = used is None and not is_ending
            is_read_on = not self._folder.is_entered or needs_program(self._state)
            if self._is_left and (verb is None or not is_read_on):
                raise JobFreeError
            if verb is None:
                reason = f"{self._program} is ending, or its scheduler is starting again"
                return waits(request, reason) if is_ending else refused(request, str(used))
            self._answer = waits(request, self._why_idle())
            other = other_job(request, record.record_id, record.terms)
            if other is None:
                self._run(request, verb(asked))
            return other or self._answer
        finally:
            record.rest()

    def _is_ending(self, used: JobInUseError | None, now: float) -> bool:
        """Return whether the other program will soon release the lock, or its next scheduler will soon take it."""
        holder = self._folder.last_holder(self._place) if used is None else used.holder
        if used is not None:
            self._program = holder.name
        is_locked, has_ended = used is not None, holder.has_ended or self._folder.is_own(holder)
        if is_locked is not has_ended:  # it is in use, or free
            self._ending_since = None
            return False
        self._ending_since = now if self._ending_since is None else self._ending_since
        return now - self._ending_since <= ENDING_SECONDS

    def _renewed(self) -> tuple[JobRecord, JobReads]:
        """Return the record and its reader. The record does not change until `JobRecord.rest` is called."""
        former = self._record
        if former is not None and former.renew():
            return former, self._reading
        self.close()
        try:
            record = self._record = self._folder.read(self._place)
        except UNREADABLE:
            if self._place.is_dir():
                raise
            raise JobFreeError from None
        job_state = JobState(record, is_new=False)
        if former is not None and former.record_id == record.record_id:
            job_state.follow(self._state)
            self._reading.renew(record, job_state)
        else:
            self._reading = JobReads(record, job_state, self._take, _stay, self._info)
        self._state = job_state
        return record, self._reading

    def _run(self, request: JobRequest, steps: Steps | None) -> None:
        """Run the steps of an answer in this thread. Each step yields an order and receives the order's result."""
        value: Any = None
        while steps is not None:
            try:
                order, failing = steps.send(value)
            except StopIteration:
                return
            try:
                value = order()
            except UNREADABLE as error:
                steps.close()
                self._answer = refused(request, f"{failing}: {error}")

    def _take(self, _asked: RequestJob, response: JobResponse) -> None:
        self._answer = response

    def _why_idle(self) -> str:
        """Return why an unfinished job does not run, as a sentence; empty while the other program has the job open."""
        if not self._is_left:
            return ""
        return NO_PROGRAM if self._folder.is_entered else f"{self._program} has ended: retry() runs it here"

    def _info(self) -> dict[str, Any]:
        reason = self._why_idle() if self._state.is_open else ""
        return self._reading.info(reason, () if self._is_left else (self._program,))

    def close(self) -> None:
        """Close the record; repeated calls have no effect."""
        if self._record is not None:
            self._record.close()
            self._record = None


def _stay(_asked: RequestJob) -> None:
    """Do nothing: the job reader repeats each unanswered request."""


class JobReader(Actor):
    """Answers requests about one job that another program has open."""

    def __init__(self, place: Path, catalog: JobCatalog, outbox: Outbox, keeper: ActorRef) -> None:
        self._catalog, self._outbox, self._keeper = catalog, outbox, keeper
        self._view = JobView(catalog.folder, place)
        self._waiting: list[tuple[RequestJob, str]] = []
        """pending requests, each with the reason for waiting that its client has received"""
        self._asked_until_now = 0

    def on_start(self) -> None:
        self.schedule(LOOK_SECONDS, JobDue(self._look))
        self.schedule(IDLE_SECONDS, JobDue(self._rest))

    @handles(RequestJob)
    def _asked(self, asked: RequestJob) -> None:
        self._asked_until_now += 1
        self._ask(asked)

    def _ask(self, asked: RequestJob, reported: str = "") -> None:
        """Have the job writer's thread answer a request. `reported`: the last reason sent to the client."""
        then = partial(self._answered, asked, reported)
        self._catalog.order(self.actor_ref, None, partial(self._view.answer, asked, self.now()), then)

    def _answered(
        self, asked: RequestJob, reported: str, response: JobResponse | None, error: BaseException | None
    ) -> None:
        if isinstance(error, JobFreeError):
            self.stop_now()
            return
        answer = response or refused(asked.request, f"the job cannot be read: {error}")
        if answer.status != JobAnswerKind.WAITS:
            self._catalog.answered(asked)
            self._outbox.put(asked.peer, answer)
        elif self._catalog.is_unanswered(asked):
            self._waiting.append((asked, answer.reason))
            if answer.reason not in ("", reported):
                self._outbox.put(asked.peer, answer)

    def _look(self) -> None:
        waiting, self._waiting = self._waiting, []
        for asked, reported in waiting:
            self._ask(asked, reported)
        self.schedule(LOOK_SECONDS, JobDue(self._look))

    def _rest(self) -> None:
        """End this actor and close the record, if no request has arrived lately and none waits."""
        if self._asked_until_now or self._waiting:
            self._asked_until_now = 0
            self.schedule(IDLE_SECONDS, JobDue(self._rest))
        else:
            self.stop_now()

    @handles(OrderDone)
    def _order_done(self, news: OrderDone) -> None:
        news.then(news.value, news.error)

    @handles(JobDue)
    def _due(self, due: JobDue) -> None:
        due.then()

    @handles(ReaderLeft)
    def _reader_left(self, left: ReaderLeft) -> None:
        self._waiting = [each for each in self._waiting if each[0].session is not left.session]

    @handles(OwnersChanged)
    def _owners_changed(self, _news: OwnersChanged) -> None:
        """Ignore changed keys of owners: the other program runs the job."""

    @handles(BalancerRestarted)
    def _balancer_restarted(self, _restarted: BalancerRestarted) -> None:
        """Ignore the restart of the balancer: a reader submits no rows."""

    def on_stop(self) -> None:
        self._leave()

    def on_failure(self, _type: object, _error: BaseException | None, _traceback: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._catalog.order(self._keeper, None, self._view.close, lambda _nothing, _error: None)
        self._keeper.send(JobEnded(self.actor_ref))
