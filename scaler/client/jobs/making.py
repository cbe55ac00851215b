"""Operations on jobs that both clients share: start, attend, find, list, and read results.

Each call may block its thread. A map with a job runs only while a client reads its results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from typing import Any, NamedTuple

from scaler.client.calls.options import TaskOptions
from scaler.client.jobs.ages import seconds_of
from scaler.client.jobs.in_use import jobs_of
from scaler.client.jobs.job import ATTEND, Job
from scaler.client.jobs.opening import Opening, Work
from scaler.client.jobs.questions import Info, JobChangedError, ask, read_info
from scaler.client.link.link import Link
from scaler.client.link.requests import JobQuestion
from scaler.client.maker import CallMaker
from scaler.client.progress.bar import Progress
from scaler.errors import JobConflictError, JobError, TooManyFailuresError
from scaler.jobs.names import check_job_name
from scaler.wire.messages.client import JobVerb

OPENINGS_MOST = 3
"""How often rows are compared again while other calls change the job."""

KEEP_FOR = "30d"
"""The default age, since its last change, at which a job is removed."""

Items = Iterable[Sequence[Any]]


class Wish(NamedTuple):
    """The arguments of a call that opens a job."""

    fn: Callable[..., Any]
    items: Items
    options: TaskOptions
    name: str
    on_change: str


def start(core: CallMaker[Any, Any], wish: Wish, keep_for: float | str) -> Job:
    """Create or find a job that runs without a client. Return when all its rows are on disk."""
    kept = (False, seconds_of("keep_for", keep_for), wish.options.max_failures)
    job = _open(core, wish, kept, None)
    job.leave()
    return job


def attend(core: CallMaker[Any, Any], wish: Wish, return_exceptions: bool, timeout: float | None = None) -> Job:
    """Create or find the job of a map. By default it stops at its first failure."""
    most = wish.options.max_failures
    most_now = 0 if most is None and not return_exceptions else most
    deadline = None if timeout is None else time.monotonic() + timeout
    return _open(core, wish, (True, seconds_of("keep_for", KEEP_FOR), most_now), deadline)


def _open(core: CallMaker[Any, Any], wish: Wish, kept: tuple[bool, float, float | None], deadline: float | None) -> Job:
    """Open a job and count it as in use until `Job.leave` is called."""
    fn, items, options, name, on_change = wish
    check_job_name(name)
    core.link.check_open()
    here, link = jobs_of(core), core.link
    here.enter(name)
    link.attend_job(name)

    def leave() -> None:
        here.leave(name)
        link.leave_job(name)

    try:
        core.functions.look()
        function, sources = core.functions.get(fn), core.functions.sources()
        n_calls = partial(here.n_calls, name)
        terms = core.terms(options, spawns=True)
        about = (name, fn, function, sources, items, terms, *kept, on_change, n_calls, deadline)
        job = _opened(partial(Opening, link, core.serializer, Work(*about), core.stored, here.digest_of), items)
    except BaseException:  # raised again
        leave()
        raise
    job.leave, job.deadline = leave, deadline
    return job


def _opened(opening: Callable[[], Opening], items: Items) -> Job:
    """Open a job. Rows that can be read again are compared again if another call has changed the job meanwhile."""
    n_left = OPENINGS_MOST if isinstance(items, (list, tuple)) else 1
    while True:
        n_left -= 1
        try:
            return opening().open()
        except JobChangedError as error:
            if not n_left:
                raise JobConflictError(f"{error}: run this program again, or take another name") from None


def results(job: Job, max_failures: float | None, return_exceptions: bool, bar: Progress | None = None) -> list[Any]:
    """Return the results of an attended job in the order of its rows.

    Raises:
        TooManyFailuresError: if too many rows have failed.
        BaseException: the exception of the first row that failed, as `Client.map` does.
    """
    found: list[Any] = []
    n_errors = 0
    try:
        for _, value, error in job.read(0, ATTEND, job.deadline):
            found.append(value if error is None else error)
            if error is not None:
                if max_failures is None and not return_exceptions:
                    raise error
                n_errors += 1
            if bar is not None and not len(found) % 256:
                bar.update(len(found), n_errors)
    except TooManyFailuresError:
        raise_first(job, max_failures)
        raise
    finally:
        if bar is not None:
            bar.finish(len(found), n_errors)
        job.leave()
    return found


def results_as_they_come(job: Job, max_failures: float | None, return_exceptions: bool) -> Iterator[Any]:
    """Iterate over the results of an attended job in the order of completion. Raises as `results` does."""
    try:
        for _, value, error in job.read_new(ATTEND, job.deadline):
            if error is not None and max_failures is None and not return_exceptions:
                raise error
            yield value if error is None else error
    except TooManyFailuresError:
        raise_first(job, max_failures)
        raise
    finally:
        job.leave()


def raise_first(job: Job, max_failures: float | None) -> None:
    """Raise the exception of the first failed row, unless `max_failures` allows failures."""
    if max_failures is None:
        failures = job.failures()
        raise failures[0].error if failures else JobError(f"the job {job.name!r} has stopped") from None


def progress_bar(items: Items) -> Progress:
    """Return a progress bar for a map, on standard error."""
    return Progress(len(items) if isinstance(items, Sized) else None, sys.stderr, str)


def find(core: CallMaker[Any, Any], name: str) -> Job:
    """Return the job of this name. Raises `JobError` if there is no such job."""
    check_job_name(name)
    link: Link = core.link
    link.check_open()
    return Job(name, link, core.serializer, read_info(ask(link, JobQuestion(JobVerb.SHOW, name))))


def find_all(core: CallMaker[Any, Any]) -> list[Job]:
    """Return all jobs of this owner. Raises `JobError` if the scheduler keeps no jobs."""
    link: Link = core.link
    link.check_open()
    known: list[Info] = read_info(ask(link, JobQuestion(JobVerb.LIST, "")))
    return [Job(info["name"], link, core.serializer, info) for info in known]
