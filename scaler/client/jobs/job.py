"""Job: work that the scheduler keeps, for whoever comes back to it.

Made by `Client.start` and `Client.job`. It holds nothing but a name: any number of programs may have one of the same
job. Must never: end a job because it is collected.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from reprlib import Repr
from typing import Any

from scaler.client.calls.items import name_of_item
from scaler.client.jobs.questions import Info, RowEnd, ask, read_info, read_rows, wait
from scaler.client.link.link import Link
from scaler.client.link.requests import JobQuestion
from scaler.client.outcome import headline, read_error, read_value, unread_result
from scaler.errors import JobError, ScalerError, TooManyFailuresError
from scaler.ids import TaskId
from scaler.pickling.serialization import Serializer, read_arguments
from scaler.wire.messages.client import JobResponse, JobVerb, TaskResult
from scaler.wire.messages.common import TaskStatus

READ_ROWS = 4096
"""The most results that are asked for at a time."""

ATTEND, SCAN = b"a", b"s"
"""The body of `READ`, see `JobVerb`."""

_SHORT = Repr()
OPEN = "open"


@dataclass(frozen=True)
class JobProgress:
    """How far a job is, as `Job.progress` returns it.

    Attributes:
        state: `open`, `done`, `canceled` or `stopped`.
        rows: how many it has so far.
        done: how many of them have ended well.
        failed: how many have failed.
        is_complete: whether all its rows are known.
        reason: why it has stopped, or waits.
        size_bytes: what it takes on the disk of the scheduler.
        seconds: how long the runs took by which its rows have ended, all together; without those of rows that were
            tried again.
    """

    state: str
    rows: int
    done: int
    failed: int
    is_complete: bool
    reason: str
    size_bytes: int
    seconds: float


@dataclass(frozen=True)
class FailedRow:
    """A row that has failed, as `Job.failures` returns it.

    Attributes:
        row: its number, from 0.
        error: its exception.
        arguments: those of its call, cut short.
    """

    row: int
    error: BaseException
    arguments: str


class Job:
    """Work that the scheduler keeps under a name.

    Attributes:
        name: of the job.
    """

    def __init__(self, name: str, link: Link, serializer: Serializer, info: Info) -> None:
        self.name = name
        self._link, self._serializer = link, serializer
        self._function = str(info["function"])

    def __repr__(self) -> str:
        return f"<Job {self.name!r} of {self._function}>"

    def progress(self) -> JobProgress:
        """Return how far it is.

        Raises:
            JobError: if it is not there any more.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
        """
        return progress_of(self._info())

    def wait(self, timeout: float | None = None) -> JobProgress:
        """Wait until it has ended, and return how.

        Args:
            timeout: seconds; None: as long as it takes.

        Raises:
            TimeoutError: if it took longer. The job goes on.
            JobError: if it is not there any more.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        return progress_of(read_info(ask(self._link, self._ask(JobVerb.SHOW, amount=1), deadline)))

    def results(self, start: int = 0, return_exceptions: bool = False) -> Iterator[Any]:
        """Go through the results in the order of the rows, each as soon as it is there and all before it are.

        Args:
            start: the first row.
            return_exceptions: whether the exception of a row that failed is its result.

        Raises:
            BaseException: the exception of the first row that failed, unless `return_exceptions`.
            TooManyFailuresError: if it stopped because too many rows have failed.
            CancelledError: if it was cancelled before all rows have ended.
            ValueError: if `start` is no number of a row.
        """
        if not 0 <= start < 2**63:
            raise ValueError(f"start must be the number of a row, from 0 on, not {start!r}")
        return (_chosen(value, error, return_exceptions) for _, value, error in self.read(start, b""))

    def as_completed(self, return_exceptions: bool = False) -> Iterator[tuple[int, Any]]:
        """Go through rows and results in the order in which they come, those first that are there.

        Raises: as `results`.
        """
        for row, value, error in self.read_new(b""):
            yield row, _chosen(value, error, return_exceptions)

    def failures(self) -> list[FailedRow]:
        """Return the rows that have failed, with their errors and arguments.

        Raises:
            JobError: if it is not there any more.
        """
        found: list[FailedRow] = []
        first = 0
        while True:
            response = ask(self._link, self._ask(JobVerb.FAILURES, first, 256))
            for row, status, frames in read_rows(response):
                error = self._error_of(RowEnd(row, status, frames[:1]))
                found.append(FailedRow(row, error, self._arguments(bytes(frames[-1]))))
                first = row + 1
            if not response.amount:
                return found

    def headlines(self, most: int) -> list[tuple[int, str]]:
        """Return the first rows that have failed, and why, in one line each. Nothing is unpickled."""
        rows = read_rows(ask(self._link, self._ask(JobVerb.FAILURES, 0, most)))
        return [(end.row, headline(self._result_of(end), self._name_of(end.row))) for end in rows]

    def retry(self) -> None:
        """Run the rows again that have failed, and go on if it was cancelled or has stopped. With `at_most_once` only
        those run again that no worker has had.

        Raises:
            JobError: if all that have failed may have begun, and must not begin again, or it is not there any more.
        """
        ask(self._link, self._ask(JobVerb.RETRY))

    def cancel(self) -> None:
        """End it: rows that run are interrupted, and no others begin. What has ended is kept."""
        ask(self._link, self._ask(JobVerb.CANCEL))

    def forget(self) -> None:
        """End it, and keep nothing."""
        ask(self._link, self._ask(JobVerb.FORGET))

    # For `Client.map`, too

    def _ask(self, verb: JobVerb, first: int = 0, amount: int = 0, body: bytes = b"") -> JobQuestion:
        return JobQuestion(verb, self.name, first, amount, body)

    def _info(self) -> Info:
        info: Info = read_info(ask(self._link, self._ask(JobVerb.SHOW)))
        return info

    def leave(self) -> None:
        """The call that attended it does not need it to go on."""
        self._link.leave_job(self.name)

    def read(
        self, start: int, wish: bytes, deadline: float | None = None
    ) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Go through rows in their order: number, value, error.

        Args:
            wish: `ATTEND` if this client needs the job to go on.

        Raises:
            TooManyFailuresError, CancelledError: if the job has ended before all rows have.
            TimeoutError: if it takes too long.
        """
        first = start
        question = self._ask(JobVerb.READ, first, READ_ROWS, wish)
        self._link.ask_job(question)
        while True:
            response = wait(question, deadline)
            if not response.amount:
                self._check_end(first)
                return
            ends = list(read_rows(response))
            first += len(ends)
            question = self._ask(JobVerb.READ, first, READ_ROWS, wish)  # the next rows travel while these are read
            self._link.ask_job(question)
            yield from map(self._value_of, ends)

    def read_new(self, wish: bytes, deadline: float | None = None) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Go through rows as they come: number, value, error. Raises as `read`."""
        seen = bytearray()
        log, at, n_seen = "", 0, 0
        while True:
            info = read_info(ask(self._link, JobQuestion(JobVerb.OPEN, self.name, amount=1 if wish else 0), deadline))
            if log != info["log"]:  # another scheduler has another order: begin with what is there
                log, at = info["log"], info["logged"]
                for end in self._scan(seen):
                    n_seen += 1
                    yield self._value_of(end)
            response = self._read_log(at, log, deadline)
            while response is not None and response.first > at:
                at = response.first
                for end in read_rows(response):
                    if _is_new(seen, end.row):
                        n_seen += 1
                        yield self._value_of(end)
                response = self._read_log(at, log, deadline)
            if response is not None:
                self._check_end(n_seen)
                return

    def _read_log(self, at: int, log: str, deadline: float | None) -> JobResponse | None:
        """Return further rows; None if the scheduler is another one."""
        question = self._ask(JobVerb.READ_NEW, at, READ_ROWS, bytes.fromhex(log))
        self._link.ask_job(question)
        try:
            return wait(question, deadline)
        except JobError as error:
            if str(error) == "log":
                return None
            raise

    def _scan(self, seen: bytearray) -> Iterator[RowEnd]:
        first = 0
        while True:
            response = ask(self._link, self._ask(JobVerb.READ, first, READ_ROWS, SCAN))
            yield from (end for end in read_rows(response) if _is_new(seen, end.row))
            if response.first <= first:
                return
            first = response.first

    def _check_end(self, n_rows: int) -> None:
        """Raise unless all rows have ended."""
        info = self._info()
        if info["state"] == "stopped":
            raise TooManyFailuresError(f"the job {self.name!r} has stopped: {info['reason']}")
        if n_rows < info["rows"]:
            raise CancelledError(f"the job {self.name!r} was cancelled before all of its rows had ended")

    def _value_of(self, end: RowEnd) -> tuple[int, Any, BaseException | None]:
        if end.status:
            return end.row, None, self._error_of(end)
        value, error = read_value(self._serializer, end.frames)
        return end.row, value, error and unread_result(error, self._name_of(end.row))

    def _error_of(self, end: RowEnd) -> BaseException:
        if end.status == TaskStatus.CANCELED:
            return CancelledError(f"row {end.row}: it had begun when it was cancelled, and has the option at_most_once")
        return read_error(self._result_of(end), self._name_of(end.row))

    def _result_of(self, end: RowEnd) -> TaskResult:
        return TaskResult(TaskId(bytes(16)), end.status, bytes(end.frames[0]), 0)

    def _name_of(self, row: int) -> str:
        return name_of_item(self._function, row, None)

    def _arguments(self, block: bytes) -> str:
        """Return arguments, cut short. Those that travel apart are not looked up."""
        try:
            read = partial(read_arguments, block, lambda *parts: read_value(self._serializer, parts)[0])
            positional, keywords = read(lambda _object_id, _own: ...)
        except (ScalerError, ValueError, struct.error):
            return "..."
        shown = [_SHORT.repr(each) for each in positional]
        return ", ".join([*shown, *(f"{key}={_SHORT.repr(each)}" for key, each in keywords.items())])


def _chosen(value: Any, error: BaseException | None, return_exceptions: bool) -> Any:
    if error is not None and not return_exceptions:
        raise error
    return value if error is None else error


def _is_new(seen: bytearray, row: int) -> bool:
    """Note a row. Return whether it had not been noted."""
    if row >= len(seen):
        seen.extend(bytes(row + 1 - len(seen)))
    was_seen, seen[row] = seen[row], 1
    return not was_seen


def progress_of(info: Info) -> JobProgress:
    """Return how far a job is."""
    counts = (info["rows"], info["done"], info["failed"])
    return JobProgress(info["state"], *counts, info["sealed"], info["reason"], info["bytes"], info["seconds"])
