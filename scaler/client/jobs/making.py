"""Making: what both clients do with jobs, each in a thread that may wait.

Called by clients. Must never: keep a map going that nobody reads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, NamedTuple

from scaler.client.calls.options import TaskOptions
from scaler.client.jobs.ages import seconds_of
from scaler.client.jobs.job import ATTEND, Job
from scaler.client.jobs.opening import Opening, Work
from scaler.client.jobs.questions import Info, ask, read_info
from scaler.client.link.link import Link
from scaler.client.link.requests import JobQuestion
from scaler.client.maker import CallMaker
from scaler.client.progress.bar import Progress
from scaler.errors import JobError, TooManyFailuresError
from scaler.wire.messages.client import JobVerb

KEEP_FOR = "30d"
"""How long a job is kept after its last change, if nothing else is said."""

Items = Iterable[Sequence[Any]]


class Wish(NamedTuple):
    """What a user wants done under a name."""

    fn: Callable[..., Any]
    items: Items
    options: TaskOptions
    name: str
    on_change: str


def start(core: CallMaker[Any, Any], wish: Wish, keep_for: float | str) -> Job:
    """Make a job that goes on whoever stays, or find it; all its rows are on disk."""
    return _open(core, wish, keep_for, False, wish.options.max_failures)


def attend(core: CallMaker[Any, Any], wish: Wish, return_exceptions: bool) -> Job:
    """Make the job of a map, or find it. Without other wishes it stops at its first failure."""
    most = wish.options.max_failures
    most_now = 0 if most is None and not return_exceptions else most
    core.link.attend_job(wish.name)
    try:
        return _open(core, wish, KEEP_FOR, True, most_now)
    except BaseException:
        core.link.leave_job(wish.name)
        raise


def _open(
    core: CallMaker[Any, Any], wish: Wish, keep_for: float | str, is_attended: bool, max_failures: float | None
) -> Job:
    fn, items, options, name, on_change = wish
    core.link.check_open()
    core.functions.look()
    function, sources = core.functions.get(fn), core.functions.sources()
    kept = (is_attended, seconds_of("keep_for", keep_for), max_failures, on_change)
    work = Work(name, fn, function, sources, items, core.terms(options), *kept)
    return Opening(core.link, core.serializer, work, core.stored).open()


def results(
    job: Job,
    max_failures: float | None,
    return_exceptions: bool,
    timeout: float | None = None,
    bar: Progress | None = None,
) -> list[Any]:
    """Return the results of an attended job in the order of its rows.

    Raises:
        TooManyFailuresError: if too many rows have failed.
        BaseException: the exception of the first row that failed, as `Client.map` does.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    found: list[Any] = []
    errors: list[BaseException] = []
    try:
        for _, value, error in job.read(0, ATTEND, deadline):
            found.append(value if error is None else error)
            if error is not None:
                errors.append(error)
            if bar is not None and not len(found) % 256:
                bar.update(len(found), len(errors))
    except TooManyFailuresError:
        raise_first(job, max_failures)
        raise
    finally:
        if bar is not None:
            bar.finish(len(found), len(errors))
        job.leave()
    if errors and not return_exceptions:
        raise errors[0]
    return found


def results_as_they_come(
    job: Job, max_failures: float | None, return_exceptions: bool, timeout: float | None = None
) -> Iterator[Any]:
    """Go through the results of an attended job as they come. Raises as `results` does."""
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        for _, value, error in job.read_new(ATTEND, deadline):
            if error is not None and max_failures is None and not return_exceptions:
                raise error
            yield value if error is None else error
    except TooManyFailuresError:
        raise_first(job, max_failures)
        raise
    finally:
        job.leave()


def raise_first(job: Job, max_failures: float | None) -> None:
    """Raise the exception of the first row that has failed, unless the user has said how many may."""
    if max_failures is None:
        failures = job.failures()
        raise failures[0].error if failures else JobError(f"the job {job.name!r} has stopped") from None


def progress_bar(items: Items) -> Progress:
    """Return what shows how far a map is."""
    return Progress(len(items) if isinstance(items, Sized) else None, sys.stderr, str)


def find(core: CallMaker[Any, Any], name: str) -> Job:
    """Return a job that is there. Raises `JobError`."""
    link: Link = core.link
    link.check_open()
    return Job(name, link, core.serializer, read_info(ask(link, JobQuestion(JobVerb.SHOW, name))))


def find_all(core: CallMaker[Any, Any]) -> list[Job]:
    """Return all jobs of this owner. Raises `JobError`."""
    link: Link = core.link
    link.check_open()
    known: list[Info] = read_info(ask(link, JobQuestion(JobVerb.LIST, "")))
    return [Job(info["name"], link, core.serializer, info) for info in known]
