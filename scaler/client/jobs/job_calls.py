"""Operations on jobs that both clients share: start, attend, find, list, read results, and replace the function.

Each call may block its thread, and any thread of the user may make it. A map with a job runs only while a client reads
its results.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from scaler.client.calls.items import close_items
from scaler.client.calls.options import TaskOptions
from scaler.client.core import Core
from scaler.client.jobs.ages import seconds_of
from scaler.client.jobs.comparing.description import Descriptions
from scaler.client.jobs.comparing.fingerprint import differences, fingerprint
from scaler.client.jobs.job import Job, values_of
from scaler.client.jobs.job_requests import Info, JobChangedError, ask, read_info
from scaler.client.jobs.opening import PYTHON, JobWork, Opening, other_python, warn_not_compared
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import JobQuestion
from scaler.client.object_reference import ObjectReference
from scaler.client.outcome import read_value
from scaler.config import ConfigError
from scaler.errors import JobConflictError, JobError, TooManyFailuresError
from scaler.ids import PREFIX_BYTES, ObjectId
from scaler.jobs.names import check_job_name
from scaler.texts import shown
from scaler.wire.messages.client import JobOpenFlags, JobReadFlags, JobVerb

OPENINGS_MOST = 3
"""The most times that one call opens a job. It opens the job again if another call has changed the job meanwhile."""

Items = Iterable[Sequence[Any]]


class JobsInUse:
    """The jobs that calls of one client use, and the digests of the client's stored objects."""

    def __init__(self, core: Core) -> None:
        self._serializer, self._stored = core.serializer, core.stored
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._digests: dict[ObjectId, bytes | None] = {}

    def enter(self, name: str) -> None:
        """Count a call that starts to use a job."""
        with self._lock:
            self._calls[name] += 1

    def n_calls(self, name: str) -> int:
        """Return the number of calls that use a job."""
        with self._lock:
            return self._calls[name]

    def leave(self, name: str) -> None:
        """Stop counting a call that used a job."""
        with self._lock:
            self._calls[name] -= 1
            if self._calls[name] <= 0:
                del self._calls[name]

    def digest_of(self, reference: ObjectReference) -> bytes:
        """Return the digest of an object's content, computed once. Raises `TypeError` for incomparable content."""
        with self._lock:
            if reference.object_id not in self._digests:
                self._digests[reference.object_id] = self._made(reference)
            digest = self._digests[reference.object_id]
        if digest is None:
            raise TypeError("the content of this object cannot be compared")
        return digest

    def _made(self, reference: ObjectReference) -> bytes | None:
        known = self._stored.get(reference.object_id)
        if known is None:
            return None
        value, error = read_value(self._serializer, known.frames)
        digest, trouble = (b"", "unreadable") if error is not None else Descriptions().of(value)
        return None if trouble else digest


_OF_CLIENTS: WeakKeyDictionary[Core, JobsInUse] = WeakKeyDictionary()
_LOCK = threading.Lock()


def jobs_of(core: Core) -> JobsInUse:
    """Return the `JobsInUse` of a client, created at the first call."""
    with _LOCK:
        found = _OF_CLIENTS.get(core)
        if found is None:
            found = _OF_CLIENTS[core] = JobsInUse(core)
        return found


class OpenJobCall(NamedTuple):
    """The arguments of a call that opens a job."""

    fn: Callable[..., Any]
    items: Items
    options: TaskOptions
    name: str
    on_change: str
    keep_for: float | str | None


def start(core: Core, call: OpenJobCall) -> Job:
    """Create or find a job that runs without a client. Return when all its rows are on disk."""
    kept = (False, seconds_of("keep_for", call.keep_for), call.options.max_failures)
    job = _open(core, call, kept, None)
    job.leave()
    return job


def attend(core: Core, call: OpenJobCall, return_exceptions: bool, timeout: float | None = None) -> Job:
    """Create or find the job of a map. It runs while this client reads and, by default, stops at its first failure."""
    most = call.options.max_failures
    most_now = 0 if most is None and not return_exceptions else most
    deadline = None if timeout is None else time.monotonic() + timeout
    return _open(core, call, (True, seconds_of("keep_for", call.keep_for), most_now), deadline)


def _open(core: Core, call: OpenJobCall, kept: tuple[bool, float | None, float | None], deadline: float | None) -> Job:
    """Open a job and count it as in use until `Job.leave` is called."""
    fn, items, options, name, on_change, _ = call
    check_job_name(name)
    core.link.check_open()
    in_use, link = jobs_of(core), core.link
    in_use.enter(name)
    link.attend_job(name)

    def leave() -> None:
        in_use.leave(name)
        link.leave_job(name)

    rest: Items = ()
    try:
        rest = items if isinstance(items, (list, tuple)) else iter(items)
        core.functions.look()
        function, sources = core.functions.get(fn), core.functions.sources()
        n_calls = partial(in_use.n_calls, name)
        terms = core.terms(options, spawns=True)
        about = (name, fn, function, sources, rest, terms, *kept, on_change, n_calls, deadline)
        job = _opened(partial(Opening, link, core.serializer, JobWork(*about), core.stored, in_use.digest_of), items)
    except BaseException:  # raised again
        close_items(rest)
        leave()
        raise
    job.leave, job.deadline, job.replace_function = leave, deadline, partial(replace_function, core, name)
    return job


def _opened(opening: Callable[[], Opening], items: Items) -> Job:
    """Open a job. If another call changes the job meanwhile, start over, provided that the items can be read again."""
    n_left = OPENINGS_MOST if isinstance(items, (list, tuple)) else 1
    while True:
        n_left -= 1
        try:
            return opening().open()
        except JobChangedError as error:
            if not n_left:
                raise JobConflictError(f"{error}: run this program again, or take another name") from None


def results(job: Job, max_failures: float | None, return_exceptions: bool, progress: bool = False) -> list[Any]:
    """Return the results of the job of a map, in row order. Raises the error of a failed row, as `Client.map` does."""
    found: list[Any] = []
    with job.new_bar() if progress else nullcontext() as bar:
        draw = None if bar is None else bar.draw
        with closing(_read(job, 0, max_failures, return_exceptions, draw)) as values:
            for value in values:
                found.append(value)
                if bar is not None and not len(found) % 256:
                    bar.draw()
        if bar is not None:
            bar.info = job.heard
    return found


def results_as_they_come(job: Job, max_failures: float | None, return_exceptions: bool) -> Iterator[Any]:
    """Iterate over the results of the job of a map, in the order of completion. Raises as `results` does."""
    return _read(job, JobReadFlags.BY_LOG, max_failures, return_exceptions)


def _read(
    job: Job, order: int, max_failures: float | None, return_exceptions: bool, draw: Callable[[], None] | None = None
) -> Generator[Any, None, None]:
    is_tolerant = return_exceptions or max_failures is not None
    try:
        found = job.read(0, order | JobReadFlags.ATTEND, job.deadline, draw)
        yield from (value for _, value in values_of(found, is_tolerant))
    except TooManyFailuresError as error:
        raise_first(error, max_failures)
        raise
    finally:
        job.leave()


def raise_first(error: TooManyFailuresError, max_failures: float | None) -> None:
    """Raise the exception of the first failed row, with its own cause, unless `max_failures` allows failures."""
    first = error.__cause__
    if first is not None and max_failures is None:
        raise first from first.__cause__


def find(core: Core, name: str) -> Job:
    """Return the job of this name. Raises `JobError` if the scheduler has no such job."""
    check_job_name(name)
    link: ClientLink = core.link
    link.check_open()
    return _handle(core, name, read_info(ask(link, JobQuestion(JobVerb.SHOW, name))))


def _handle(core: Core, name: str, info: Info) -> Job:
    job = Job(name, core.link, core.serializer, info)
    job.replace_function = partial(replace_function, core, name)
    return job


def find_all(core: Core) -> list[Job]:
    """Return all jobs of this client's owner. Raises `JobError` if the scheduler keeps no jobs."""
    link: ClientLink = core.link
    link.check_open()
    known: list[Info] = read_info(ask(link, JobQuestion(JobVerb.LIST, "")))
    return [_handle(core, info["name"], info) for info in known]


def replace_function(core: Core, name: str, info: Info, work: bytes, fn: Callable[..., Any]) -> None:
    """Start a new version of a job with another function. If the function is the same, nothing changes.

    Args:
        work: the id of the job's record and the number of the work, as the caller knows them.

    Raises:
        JobConflictError: if another call uses or has changed the job, or another version of Python made it.
        JobError: if the job cannot be changed.
        TypeError, SerializeObjectError: as for `Client.map`.
    """
    link = core.link
    link.check_open()
    if link.is_nested:
        raise ConfigError("a task cannot change a job: return the rows from the task, and change the job outside")
    if not callable(fn):
        raise TypeError(f"retry(fn) takes a function, not {shown(fn)}: the job has the arguments of its rows")
    in_use = jobs_of(core)
    core.functions.look()
    function, sources = core.functions.get(fn), core.functions.sources()
    found = fingerprint(fn, sources, in_use.digest_of)
    refusal = f"the function of the job {name!r} cannot be replaced"
    if info["python"] != PYTHON:
        raise JobConflictError(f"{refusal}: {other_python(info)}")
    if not (found.not_compared or differences(info["fingerprint"], found.parts)):
        return
    if in_use.n_calls(name):
        raise JobConflictError(f"{refusal} now: another call of this program uses it")
    if name != info["name"]:  # an admin has named the owner, too
        raise JobError(f"{refusal}: only its owner, {info['owner']}, can replace it")
    terms = info["priority"], info["task_name"], bytes.fromhex(info["options"]), 0, 0
    kept = info["attended"], None, info["max_failures"]
    body = json.dumps(JobWork(name, fn, function, sources, (), terms, *kept).described(found.parts)).encode()
    new, flags = function.instruction, JobOpenFlags.NEW_VERSION | JobOpenFlags.SAME_ROWS
    record, known = work[:PREFIX_BYTES], int.from_bytes(work[PREFIX_BYTES:], "little")
    # The function comes first, so that a version always has one.
    ask(link, JobQuestion(JobVerb.OBJECT, name, 0, int(new.kind), new.object_id, new.frames, record))
    try:
        ask(link, JobQuestion(JobVerb.OPEN, name, known, flags, body, (), record))
    except JobConflictError:
        raise
    except JobError as error:
        raise JobError(f"{refusal} now: {error}") from None
    warn_not_compared(name, found)
