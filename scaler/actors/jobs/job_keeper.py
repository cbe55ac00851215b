"""JobKeeper: finds and creates the jobs of the scheduler, and forwards the requests of clients to them.

Receives messages from client sessions, its jobs, the acceptor and the job writer. Sends to its jobs and, through the
outbox, to clients. A job is opened when a client requests something of it. Only its owner and admins can see a job.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from scaler.actors.jobs.answers import known, refused, terms_of
from scaler.actors.jobs.job import JobActor
from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.actors.jobs.job_reads import only_reads
from scaler.actors.jobs.job_state import JobState
from scaler.actors.jobs.reader import JobReader, LeftJobError, needs_program
from scaler.actors.messages.jobs import CheckExpiry, JobEnded, OrderDone, OwnersChanged, ReaderLeft, RequestJob
from scaler.actors.messages.peers import EndSession, ReportStatistics
from scaler.actors.messages.tasks import BalancerRestarted
from scaler.actors.vocabulary.services import Services
from scaler.config import ConfigError
from scaler.errors import ProtocolError
from scaler.jobs.folder import JobInUseError, is_expired, read_jobs
from scaler.jobs.record import JobRecord, JobSummary, JobTerms
from scaler.kit import Actor, ActorRef, ChildFailed, Timer, charged_to, handles
from scaler.wire.messages.client import JobAnswerKind, JobResponse, JobVerb

logger = logging.getLogger(__name__)

LOOK_SECONDS = 20.0
"""Interval between two searches for expired jobs."""

FIRST_LOOK_SECONDS = 1.0
"""Time from the first request about jobs of a shared folder to the first search for expired jobs."""

REQUESTS_MOST = 4096
"""Limit of a session's unanswered requests. Further requests are refused; this many refusals end the session."""
LISTS_MOST = 16
"""Limit of a session's waiting requests for lists of jobs. For each list, the scheduler reads all jobs."""

Opened: TypeAlias = "tuple[JobRecord, JobState]"
Looked: TypeAlias = "tuple[list[tuple[Path, JobSummary | None]], bool]"
"""The places and summaries of the examined jobs, and whether jobs are left to examine (`JobFolder.look`)."""


class JobKeeper(Actor):
    """Finds, creates and expires jobs, and forwards requests to the actor of each job."""

    def __init__(self, catalog: JobCatalog, services: Services) -> None:
        self._catalog, self._services = catalog, services
        self._jobs: dict[Path, ActorRef] = {}
        self._opening: dict[Path, list[RequestJob]] = {}
        """jobs that are being opened, each with the requests that have arrived since its opening started"""
        self._lists: dict[str | None, list[RequestJob]] = {}
        """owners whose jobs are being listed, each with the requests for the next list; the key None: all owners"""
        self._excess: Counter[ActorRef] = Counter()
        self._next_look: Timer | None = None
        """the timer of the next search for expired jobs; None before the first request about jobs of a shared folder"""

    def on_start(self) -> None:
        if not self._catalog.is_shared:
            self._look_for_expired(CheckExpiry())

    @handles(CheckExpiry)
    def _look_for_expired(self, _look: CheckExpiry) -> None:
        """Remove expired jobs. The first search also finds the jobs that must run."""
        if self._next_look is None or self._catalog.is_shared:
            self._order(self._catalog.folder.note_jobs, _nothing)
        self._look()
        self._next_look = self.schedule(LOOK_SECONDS, CheckExpiry())

    def _look(self) -> None:
        self._order(self._catalog.folder.look, self._looked)

    def _order(self, order: Callable[[], Any], then: Callable[[Any, BaseException | None], None]) -> None:
        self._catalog.order(self.actor_ref, None, order, then)

    @handles(OrderDone)
    def _order_done(self, news: OrderDone) -> None:
        news.then(news.value, news.error)

    def _looked(self, looked: Looked | None, error: BaseException | None) -> None:
        if looked is None:
            logger.error("the jobs in %s cannot be read: %s", self._catalog.folder.path, error)
            return
        found, has_more = looked
        if has_more:  # after the orders that other actors have queued meanwhile
            self._look()
        for place, summary in found:
            if summary is None:
                self._catalog.seen.pop(place, None)
            elif place not in self._jobs and not self._catalog.is_shared:
                self._catalog.seen[place] = self._catalog.shown(summary)
        if not self._catalog.is_shared:
            self._open_all(place for place, summary in found if summary is not None and summary.runs_alone)

    def _open_all(self, places: Iterable[Path]) -> None:
        for place in places:
            self._open(place, self._opening_of(place), is_new=False)

    def _opening_of(self, place: Path, program: str = "", *, is_read: bool = False) -> Callable[[], Opened]:
        return partial(_open, self._catalog, self._services.read_options, place, _named(program), is_read)

    def _open(self, place: Path, order: Callable[[], Opened], *, is_new: bool) -> None:
        if place not in self._jobs and place not in self._opening:
            self._opening[place] = []
            self._order(order, partial(self._opened, place, is_new))

    def _opened(self, place: Path, is_new: bool, opened: Opened | None, error: BaseException | None) -> None:
        waiting = self._opening.pop(place)
        if opened is None and not is_new and not place.is_dir():  # it has expired meanwhile
            for asked in waiting:
                self._handle(asked)
            return
        if isinstance(error, (JobInUseError, LeftJobError)) and place.is_dir():
            self._spawn_job(place, JobReader(place, self._catalog, self._services.outbox, self.actor_ref), waiting)
            return
        if opened is None:
            reason = self._why_closed(place, is_new, error)
            logger.warning("%s: %s", place, reason)
            for asked in waiting:
                self._reply(asked, refused(asked.request, reason))
            return
        self._spawn_job(place, JobActor(*opened, self._catalog, self._services, self.actor_ref), waiting)

    def _spawn_job(self, place: Path, job: JobActor | JobReader, waiting: list[RequestJob]) -> None:
        self._jobs[place] = ref = self.spawn(job)
        for asked in waiting:
            self._forward(ref, asked)

    def _why_closed(self, place: Path, is_new: bool, error: BaseException | None) -> str:
        if isinstance(error, ConfigError):
            return str(error) if isinstance(error, JobInUseError) else f"the job cannot be opened: {error}"
        folder = self._catalog.folder.path
        if is_new:
            return (
                f"the job cannot be stored in {folder}: {error}; check that the disk has space, and that the folder is "
                "writable"
            )
        return (
            f"the job cannot be read: {error}; nothing was changed. scaler_jobs --file {folder} check lists what "
            f"is damaged. To delete the job, end the scheduler and remove {place}"
        )

    def _forward(self, job: ActorRef, asked: RequestJob) -> None:
        self._catalog.unanswered[asked.session, asked.request.number] = job, asked
        job.send(asked)

    def _reply(self, asked: RequestJob, response: JobResponse) -> None:
        self._catalog.answered(asked)
        self._services.outbox.put(asked.peer, response)

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add("jobs", "", {"jobs": len(self._jobs)})

    @handles(RequestJob)
    @charged_to("session")
    def _asked(self, asked: RequestJob) -> None:
        if self._next_look is None:
            self._next_look = self.schedule(FIRST_LOOK_SECONDS, CheckExpiry())
        self._catalog.n_unanswered[asked.session] += 1
        if self._catalog.n_unanswered[asked.session] > REQUESTS_MOST:
            self._refuse(asked, f"this client has {REQUESTS_MOST:,} unanswered requests about jobs")
        else:
            self._handle(asked)

    def _refuse(self, asked: RequestJob, reason: str) -> None:
        """Refuse a request, because its session has too many. After `REQUESTS_MOST` refusals, end the session."""
        self._reply(asked, refused(asked.request, f"{reason}: wait for their answers first"))
        self._excess[asked.session] += 1
        if self._excess[asked.session] == REQUESTS_MOST:
            asked.session.send(
                EndSession(f"{REQUESTS_MOST:,} of its requests about jobs were refused as too many: {reason}")
            )

    def _handle(self, asked: RequestJob, *, is_read: bool = True) -> None:
        """Answer or forward a request. `is_read`: False if a request handled together with it changes or runs a job."""
        request = asked.request
        if request.verb == JobVerb.LIST:
            self._list_jobs(asked, None if request.amount and asked.peer.is_admin else asked.owner)
            return
        if request.verb == JobVerb.GIVE and not asked.peer.is_admin:
            self._reply(asked, refused(request, f"only admins may transfer jobs; {asked.owner} is not an admin"))
            return
        try:
            place = self._place_of(asked)
        except ConfigError as error:
            self._reply(asked, refused(request, str(error)))
            return
        job = self._jobs.get(place)
        if job is not None:
            self._forward(job, asked)
        elif place in self._opening:
            self._opening[place].append(asked)
        elif place.is_dir():
            is_read = is_read and only_reads(request)
            self._open(place, self._opening_of(place, asked.program, is_read=is_read), is_new=False)
            self._opening[place].append(asked)
        elif request.verb == JobVerb.OPEN and request.body and not request.record:
            self._make(place, asked)
        elif request.verb == JobVerb.FORGET and request.record:  # resent: the job was forgotten already
            self._reply(asked, known(request))
        else:
            self._reply(asked, refused(request, self._why_missing(asked), JobAnswerKind.NOT_FOUND))

    def _why_missing(self, asked: RequestJob) -> str:
        name, folder = asked.request.name, self._catalog.folder
        if asked.request.record:
            return f"the job {name!r} no longer exists: it was forgotten, or has expired (keep_for)"
        other = folder.other_owner(asked.owner, name) if self._catalog.is_shared else None
        if other:
            return _of_another(folder.path, other, asked)
        return f"there is no job {name!r} of {asked.owner} here: it was forgotten, has expired, or has another name"

    def _place_of(self, asked: RequestJob) -> Path:
        """Return the folder of the job that a request names. An admin may name a job as OWNER/NAME."""
        folder, request = self._catalog.folder, asked.request
        place = folder.place_of(asked.owner, request.name)
        owner, _, name = request.name.partition("/")
        is_new = request.verb == JobVerb.OPEN and request.body
        if owner and name and asked.peer.is_admin and not is_new and not place.is_dir():
            place = folder.place_of(owner, name)
        if request.verb == JobVerb.GIVE and not place.is_dir():  # resent: it was transferred already
            given = folder.place_of(request.body.decode(errors="replace"), name or request.name)
            return given if given.is_dir() else place
        return place

    def _make(self, place: Path, asked: RequestJob) -> None:
        try:
            terms = terms_of(asked, asked.owner, self._services.read_options)
        except (ValueError, ProtocolError) as error:
            self._reply(asked, refused(asked.request, f"its terms cannot be read: {error}"))
            return
        folder = self._catalog.folder
        other = folder.other_owner(asked.owner, asked.request.name) if self._catalog.is_shared else None
        why = self._catalog.why_full() or (other and _of_another(folder.path, other, asked))
        if why:
            self._reply(asked, refused(asked.request, why))
            return
        self._open(place, partial(_create, self._catalog, terms, _named(asked.program)), is_new=True)
        self._opening[place].append(asked)

    def _list_jobs(self, asked: RequestJob, owner: str | None) -> None:
        if owner not in self._lists:
            self._lists[owner] = []
            self._order_list(owner, [asked])
        elif sum(each.session is asked.session for each in self._lists[owner]) < LISTS_MOST:
            self._lists[owner].append(asked)
        else:
            self._refuse(asked, f"this client has {LISTS_MOST} unanswered requests for lists of jobs")

    def _order_list(self, owner: str | None, requests: list[RequestJob]) -> None:
        self._order(partial(_list, self._catalog, owner), partial(self._listed, owner, requests))

    def _listed(
        self, owner: str | None, requests: list[RequestJob], found: list[Any] | None, error: BaseException | None
    ) -> None:
        body = json.dumps(found).encode()
        for asked in requests:
            number = asked.request.number
            if found is None:
                self._reply(asked, refused(asked.request, f"the jobs cannot be read: {error}"))
            else:
                self._reply(asked, JobResponse(number, JobAnswerKind.KNOWN, 0, len(found), body))
        waiting = self._lists.pop(owner)
        if waiting:
            self._lists[owner] = []
            self._order_list(owner, waiting)

    @handles(OwnersChanged)
    def _owners_changed(self, news: OwnersChanged) -> None:
        seen = self._catalog.seen
        for place, summary in list(seen.items()):
            if place not in self._jobs:
                seen[place] = self._catalog.shown(summary)
        for job in self._jobs.values():
            job.send(news)

    @handles(ReaderLeft)
    def _reader_left(self, left: ReaderLeft) -> None:
        for waiting in (*self._opening.values(), *self._lists.values()):
            waiting[:] = [asked for asked in waiting if asked.session is not left.session]
        for counts in (self._catalog.n_unanswered, self._excess):
            counts.pop(left.session, None)
        unanswered = self._catalog.unanswered
        for key in [key for key in unanswered if key[0] is left.session]:
            del unanswered[key]
        for job in self._jobs.values():
            job.send(left)

    @handles(BalancerRestarted)
    def _balancer_restarted(self, restarted: BalancerRestarted) -> None:
        for job in self._jobs.values():
            job.send(restarted)

    @handles(JobEnded)
    def _job_ended(self, ended: JobEnded) -> None:
        self._jobs = {place: job for place, job in self._jobs.items() if job is not ended.job}
        left = self._take_unanswered(ended.job)
        is_read = all(only_reads(asked.request) for asked in left)
        for asked in left:  # these arrived after the job had decided to end
            self._handle(asked, is_read=is_read)
        given, self._catalog.given = self._catalog.given, set()
        self._open_all(given)

    def _take_unanswered(self, job: ActorRef) -> list[RequestJob]:
        unanswered = self._catalog.unanswered
        found = [(key, asked) for key, (of, asked) in unanswered.items() if of is job]
        for key, _ in found:
            del unanswered[key]
        return [asked for _, asked in found]

    @handles(ChildFailed)
    def _job_failed(self, failed: ChildFailed) -> None:
        """Refuse the open requests about a job whose actor has failed. The next request opens the job again."""
        logger.error("a job failed inside the scheduler: %r", failed.error)
        for asked in self._take_unanswered(failed.child):
            self._reply(
                asked, refused(asked.request, f"the scheduler failed while it handled this job: {failed.error!r}")
            )
        self._job_ended(JobEnded(failed.child))


def _of_another(folder: Path, other: str, asked: RequestJob) -> str:
    """Return the error for a job of another owner in the folder of a local cluster."""
    name = asked.request.name
    return (
        f"the job {name!r} in {folder} belongs to {other}, and you are {asked.owner}: take another name, or take it "
        f"over with scaler_jobs --file {folder} give {other}/{name} {asked.owner}"
    )


def _named(program: str) -> str:
    """Return the name of a program without its user and host, which are the same for all programs of a folder."""
    return program.rpartition(", ")[0] or program


def _nothing(_value: None, _error: BaseException | None) -> None:
    """Ignore the answer to an order."""


# In the job writer's thread


def _open(
    catalog: JobCatalog, read_options: Callable[[bytes], object], place: Path, program: str, is_read: bool
) -> Opened:
    record = catalog.folder.open(place, program)
    try:
        read_options(record.terms.options)
    except ProtocolError:
        catalog.folder.shut(record)
        raise
    is_new_version = place in catalog.fresh
    job_state = JobState(record, False, is_new_version)
    if is_read and catalog.is_shared and not is_new_version and needs_program(job_state):
        catalog.folder.shut(record)
        raise LeftJobError
    catalog.fresh.discard(place)
    return record, job_state


def _create(catalog: JobCatalog, terms: JobTerms, program: str) -> Opened:
    record = catalog.folder.create(terms, program)
    is_new = record.record_id == terms.prefix  # otherwise another program has created it meanwhile
    return record, JobState(record, is_new)


def _list(catalog: JobCatalog, owner: str | None) -> list[dict[str, Any]]:
    folder = catalog.folder
    if not folder.path.exists():
        return []
    read = [(place, each) for place, each in read_jobs(folder.path) if isinstance(each, JobSummary)]
    kept = [each for place, each in read if not is_expired(each) or folder.is_used(place)]
    return [catalog.shown(each).info() for each in kept if owner in (None, each.terms.owner)]
