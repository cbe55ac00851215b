"""Kept: jobs that simulated users name, and programs that wait for them with the real client.

What waits in a client is a thread of its own here, which has its turn when its answer has come: either it runs, or the
world does.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from scaler.actors.jobs.job import TRY_AGAIN_SECONDS
from scaler.actors.jobs.submitted_rows import RowSizes
from scaler.client.jobs.job import Job
from scaler.client.jobs.job_requests import read_rows
from scaler.client.link.requests import JobQuestion
from scaler.errors import (
    JobConflictError,
    JobError,
    MissingObjects,
    ProcessorDiedError,
    TaskNotFoundError,
    WorkerDiedError,
)
from scaler.wire.messages.client import JobAnswerKind, JobResponse, JobVerb
from tests.simulation.programs import RAISE, Script, value_of, work
from tests.simulation.world import Party, ViolationError

if TYPE_CHECKING:
    from tests.simulation.users import User


@dataclass
class NamedJob:
    """A job, and what is known of it."""

    owner: str
    name: str
    scripts: Sequence[Script]
    is_attended: bool
    once: bool = False
    is_kept: bool = False
    """whether all of it was said to be on disk"""
    was_canceled: bool = False
    is_canceled: bool = False
    """whether that was acknowledged, and nobody has had it go on since"""
    n_openings: int = 0
    """how many calls have it go on, and are not over"""
    is_tried_again: bool = False
    """whether that was acknowledged, and nobody has cancelled it since"""
    rivals: Sequence[Script] = ()
    """other rows that a program has under the same name"""
    is_mine: bool = False
    """whether a program has had all results of these rows, and not of the others"""
    n_cancels: int = 0
    """how many calls cancel it, and are not over"""
    failed: dict[str, int] = field(default_factory=dict)
    """rows that were said to have failed, and after how many runs"""
    maps: Counter[Party] = field(default_factory=Counter)
    """how many calls of a program go through its results, and need it to go on"""
    attending: set[Party] = field(default_factory=set)
    """programs with such a call, until they have heard that the scheduler knows of its end"""

    def hear(self, verb: int, response: JobResponse, party: Party) -> None:
        """A program hears that its wish has been fulfilled."""
        is_sealed = verb == JobVerb.OPEN and json.loads(response.body)["sealed"]
        self.is_kept = self.is_kept or verb == JobVerb.SEAL or is_sealed
        self.is_canceled = self.is_canceled or (verb == JobVerb.CANCEL and not self.n_openings)
        self.is_tried_again = self.is_tried_again or (verb == JobVerb.RETRY and not self.n_cancels)
        if verb == JobVerb.LEAVE and not self.maps[party]:
            self.attending.discard(party)


TROUBLE_SECONDS = TRY_AGAIN_SECONDS + 1.0
"""So long after a disk has failed a job may still pause."""


class _EndedError(BaseException):
    """The program of a thread is gone."""


class Routine:
    """A thread of a program that may wait for answers."""

    here = threading.local()

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._awaited: Future[Any] | None = None
        self._is_ended = False
        self.is_over = False
        self.error: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()
        self._turn()

    def _run(self) -> None:
        Routine.here.routine = self
        self._go.acquire()
        try:
            self._act()
        except _EndedError:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever has made the thread looks at it
            self.error = error
        self.is_over = True
        self._back.release()

    def _turn(self) -> None:
        self._go.release()
        self._back.acquire()

    def look(self) -> None:
        """Let it run as long as what it waits for is there."""
        while not self.is_over and (self._awaited is None or self._awaited.done()):
            self._turn()

    def wait(self, awaited: Future[Any]) -> None:
        """Called by the thread itself."""
        self._awaited = awaited
        while not awaited.done():
            self._back.release()
            self._go.acquire()
            if self._is_ended:
                raise _EndedError
        self._awaited = None

    def end(self) -> None:
        """Its program is gone: the thread does nothing any more."""
        self._is_ended = True
        while not self.is_over:
            self._turn()


class Kept:
    """What one program does with a job."""

    is_lazy = False

    def __init__(self, user: User, job: NamedJob, act: Callable[[Kept], None]) -> None:
        self.user, self.job, self._record = user, job, user.record
        self.client = user.client.options(at_most_once=True) if job.once else user.client
        self.is_over = False
        self._since = user.party.world.now
        self._begun: dict[str, int] = {}
        self._routine = Routine(lambda: act(self))
        user.party.routines.append(self._routine)  # type: ignore[attr-defined] - jobs are of programs

    def look(self, _is_end: bool) -> None:
        self._routine.look()
        self.is_over = self._routine.is_over
        error = self._routine.error
        if error is None or self.user.is_leaving:
            return
        if isinstance(error, ViolationError):
            raise error
        if not self._may_fail(error):
            raise ViolationError(f"the job {self.job.name} of {self.job.owner} ended with {error!r}") from error

    def _may_fail(self, error: BaseException) -> bool:
        if isinstance(error, CancelledError):
            return self.job.was_canceled
        if isinstance(error, JobConflictError):
            return bool(self.job.rivals)
        return isinstance(error, JobError) and self._record.disk_failed_until + TROUBLE_SECONDS >= self._since

    # What users do

    def map(self) -> None:
        """Run the program, perhaps again."""
        with self._attending():
            values = self.client.map(work, self._rows(), job=self.job.name, return_exceptions=True)
        self._check_all(values)
        self._check_again()

    def map_unordered(self) -> None:
        with self._attending():
            self._check_some(self._stream())
        self._check_again()

    def map_in_part(self) -> None:
        """Go through some results, and leave the others."""
        with self._attending(), closing(self._stream()) as stream:
            self._check_some(islice(stream, len(self.job.scripts) // 3))

    def _stream(self) -> Any:
        return self.client.map_unordered(work, self._rows(), job=self.job.name, return_exceptions=True)

    @contextmanager
    def _attending(self) -> Iterator[None]:
        job, party = self.job, self.user.party
        job.attending.add(party)
        job.maps[party] += 1
        try:
            with self._opening():
                yield
        finally:
            job.maps[party] -= 1

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """The job is to go on. If the program dies meanwhile, that may be heard at any time."""
        self.job.n_openings += 1
        self.job.is_canceled = False
        yield
        self.job.n_openings -= 1

    def start(self) -> Job:
        self._record.going_on.update(script.key for script in self.job.scripts)
        with self._opening():
            return self.client.start(work, self._rows(), name=self.job.name)

    def read(self) -> None:
        """As another program does that knows nothing but the name."""
        self._check_all(list(self.client.job(self.job.name).results(return_exceptions=True)))

    def read_as_completed(self) -> None:
        rows = list(self.client.job(self.job.name).as_completed(return_exceptions=True))
        self._check_all([value for _, value in sorted(rows, key=lambda each: each[0])])

    def retry(self) -> None:
        self._ask_again()
        try:
            with self._opening():
                job = self.client.job(self.job.name)
                self.job.attending.add(self.user.party)  # who has rows run again needs them
                job.retry()
                self.job.attending.add(self.user.party)  # the last of its maps may have left meanwhile
        except JobError as error:
            if not self.job.once or "may have started" not in str(error):
                raise

    def cancel(self) -> None:
        self.job.was_canceled = True
        self._record.of_canceled_jobs.update(script.key for script in self.job.scripts)
        self.job.n_cancels += 1
        self.job.is_tried_again = False
        self.client.job(self.job.name).cancel()
        self.job.n_cancels -= 1

    def finish(self) -> None:
        """Have it end, however far it is, and read all."""
        if self.job.is_attended:
            self.map()
            return
        # The handle of a rival stays with its own rows: a later look by name may find those of the other.
        job = self.client.job(self.job.name) if self.job.is_kept else self.start()
        if self.job.was_canceled:
            self.retry()
        job.wait()
        self._check_all(list(job.results(return_exceptions=True)))

    def finish_rival(self) -> None:
        """Have it end, if these are its rows."""
        (self.map if self.job.is_attended else self.finish)()
        self.job.is_mine = True

    def forget(self) -> None:
        try:
            self.client.job(self.job.name).forget()
        except JobError:
            if not self.job.rivals:  # else another one may have forgotten it
                raise

    # What it checks

    def _rows(self) -> list[tuple[Script]]:
        if self.job.is_attended:
            self._ask_again()
        return [(script,) for script in self.job.scripts]

    def _ask_again(self) -> None:
        """Rows that have failed are to run again."""
        record = self._record
        self._begun = {} if self.job.once else self.job.failed.copy()
        for key in {script.key for script in (*self.job.scripts, *self.job.rivals)}:
            record.asked_again[key] += 1

    def _check_again(self) -> None:
        for key, n_runs in self._begun.items():
            if len(self._record.starts[key]) <= n_runs:
                raise ViolationError(f"row {key} had failed, and was not run again")

    def _check_some(self, stream: Iterable[Any]) -> None:
        values = {repr(value) for value in stream if not isinstance(value, BaseException)}
        expected = {repr(value_of(script)) for script in self.job.scripts if script.kind != RAISE}
        if not values <= expected:
            raise ViolationError(f"the job {self.job.name} returned {values - expected!s:.80}")

    def _check_all(self, values: Sequence[Any]) -> None:
        scripts = self.job.scripts
        if len(values) != len(scripts):
            raise ViolationError(f"the job {self.job.name} has {len(scripts)} rows, and returned {len(values)}")
        for script, value in zip(scripts, values, strict=True):
            self._check(script, value)

    def _check(self, script: Script, value: Any) -> None:
        record, key = self._record, script.key
        if isinstance(value, (TaskNotFoundError, MissingObjects)) and script.once:
            record.excuse_once(key, (), self._since, value)
            record.needless.update([key] * (key not in record.starts))
        elif isinstance(value, (ProcessorDiedError, WorkerDiedError)):
            record.excuse_once(key, (), self._since, value) if script.once else record.excuse(key, (), value)
        elif (script.kind == RAISE and isinstance(value, ValueError)) or (
            script.once and self.job.was_canceled and isinstance(value, CancelledError)
        ):
            return
        elif script.kind == RAISE or value != value_of(script):
            raise ViolationError(f"row {key} of the job {self.job.name} returned {value!r:.80}")


@contextmanager
def jobs_installed(party: Callable[[], Any], rows_most: int) -> Iterator[None]:
    """Have threads of programs take turns with the world, and each row noted of which a program hears."""
    receive = JobQuestion.receive

    def note(question: JobQuestion, response: Any, rows: object) -> bool:
        verb, name, *_ = question._request
        job = party().record.jobs.get((party().owner, name))
        if response.status == JobAnswerKind.ROWS and job is not None:
            party().record.acknowledge(party().owner, name, read_rows(response))
        elif response.status == JobAnswerKind.KNOWN and job is not None:
            job.hear(verb, response, party())
        return receive(question, response, rows)

    def result(question: JobQuestion, _seconds: float | None = None) -> Any:
        Routine.here.routine.wait(question)
        return Future.result(question, 0)

    def size(sizes: RowSizes, n_open: int) -> int:
        """Now more rows travel together, now fewer, however long they take."""
        return max(1, min(sizes._most, 1 + n_open * 5 % rows_most))

    patches: list[AbstractContextManager[Any]] = [
        patch.object(JobQuestion, "receive", note),
        patch.object(JobQuestion, "result", result),
        patch.object(RowSizes, "size", size),
        patch("scaler.client.jobs.row_ranges.ROWS", 7),
    ]
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield
