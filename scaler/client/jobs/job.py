"""Job: a handle of work that the scheduler keeps under a name.

Returned by `Client.start`, `Client.job` and `Client.jobs`. Any number of programs may hold handles of the same job.
The job does not end when a handle is garbage-collected.
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from scaler.client.calls.items import name_of_item, shown_arguments
from scaler.client.foreign_words import OF_JOBS, hints_at, without_foreign_words
from scaler.client.insight import markup
from scaler.client.jobs.job_requests import Info, JobBar, RowEnd, ask, read_info, read_rows, wait
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import JobQuestion
from scaler.client.outcome import headline, read_error, read_value, unread_result
from scaler.config import check_timeout
from scaler.errors import JobError, RerunError, ScalerError, TooManyFailuresError
from scaler.ids import PREFIX_BYTES, TaskId, random_id
from scaler.jobs.failures import is_too_many
from scaler.pickling.serialization import Serializer, read_arguments
from scaler.texts import safe_repr, shown
from scaler.wire.messages.client import AT_END, TOKEN_BYTES, VERSIONS, JobReadFlags, JobResponse, JobVerb, TaskResult
from scaler.wire.messages.common import TaskStatus

if TYPE_CHECKING:
    from typing_extensions import Self

    from scaler.client.rerun.failed_call import FailedCall

Seen: TypeAlias = "defaultdict[int, int]"
"""The rows that were read: item `n` has a bit for each of the 64 rows from `64 * n` on.

It is a dictionary, because the scheduler may send any row number.
"""

_READING = JobVerb.READ, JobVerb.FAILURES

STOPPED = "stopped"
FORGOTTEN = "forgotten"
"""The state that a handle displays after `forget` has deleted the job."""

_INTERNAL = {
    "check_end", "deadline", "end_of", "function", "headlines", "heard", "leave", "new_bar", "read", "read_ended",
    "reader", "replace_function", "sent_wait", "shown", "tolerates", "value_of", "versions",
}  # fmt: skip
"""The attributes that only other modules use, and that `dir` does not show."""


@dataclass(frozen=True)
class JobProgress:
    """The progress of a job, as `Job.progress` returns it.

    Attributes:
        state: `open`, `paused` (its owner has no valid key), `done`, `canceled` or `stopped`.
        rows: the number of rows submitted so far.
        done: the number of rows with a result.
        failed: the number of rows that failed.
        is_complete: whether all rows are submitted, and each is done or failed.
        reason: why the job has stopped, is paused or waits; empty otherwise.
        size_bytes: the size of the job on the scheduler's disk, in bytes.
        seconds: the total run time of the ended rows, in seconds, without runs that were retried.
        all_rows_known: whether the program has submitted all rows.
        handed_out: the number of open rows that the scheduler has as tasks: they wait, or run.
        running: the number of rows at workers.
    """

    state: str
    rows: int
    done: int
    failed: int
    is_complete: bool
    reason: str
    size_bytes: int
    seconds: float
    all_rows_known: bool
    handed_out: int
    running: int


@dataclass(frozen=True)
class FailedRow:
    """A failed row, as `Job.failures` returns it.

    Attributes:
        row: the number of the row, from 0.
        error: the exception of the row.
        arguments: the arguments of the row as text, shortened.
    """

    row: int
    error: BaseException
    arguments: str
    _read: ClassVar[Callable[..., FailedCall] | None] = None
    """a function that reads the call of a row; not a field, because copies and pickles must not contain it"""

    def __repr__(self) -> str:
        return f"FailedRow(row={self.row}, error={safe_repr(self.error)}, arguments={self.arguments!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"row": self.row, "error": self.error, "arguments": self.arguments}

    def read_by(self, read: Callable[..., FailedCall] | None) -> Self:
        """Set the function with which `rerun` reads the call of the row. Return this object."""
        object.__setattr__(self, "_read", read)
        return self

    def rerun(self, *, again: bool = False) -> Any:
        """Call the function of the row again, here: with its arguments, in this process and this thread, so that
        `breakpoint()` and a debugger stop in it. Return the value of the function, or raise its exception with the
        real traceback.

        Function, arguments and objects are read from the record of the job. The record keeps the failure: `Job.retry`
        runs the row on a worker again. Otherwise this method works as `ScalerFuture.rerun` does.

        Args:
            again: whether a row with the option `at_most_once` may run a second time.

        Raises:
            RerunError: if the row must not run again, or a part of its call is damaged or missing.
            JobConflictError: if another call has changed the job since the handle was made: get a new handle.
            JobError: if the job no longer exists.
            DeserializeObjectError: if the function or an argument cannot be read here.
            BaseException: the exception of the function.
        """
        __tracebackhide__ = True
        from scaler.client.rerun.failed_call import run  # noqa: PLC0415 - few programs need it

        return run(self._call(again=again))

    def _call(self, *, again: bool) -> FailedCall:
        if self._read is None:
            raise RerunError(
                f"row {self.row} was copied, and a copy does not know its job: take the row from job.failures()"
            )
        return self._read(self.row, again=again)


class OutcomeReader:
    """Reads the outcomes of rows, an answer at a time. While one is used, the next one is requested.

    Args:
        request: sends the request for the rows from a position on.
        flags: bits of `JobReadFlags`. With `BY_LOG`, each row is returned once, even if it has run again.
    """

    def __init__(self, request: Callable[[int], JobQuestion], start: int, flags: int) -> None:
        self._request, self._at = request, start
        self._seen: Seen | None = defaultdict(int) if flags & JobReadFlags.BY_LOG else None
        self.n_rows = start
        """the number of rows that were read, with those before the start"""
        self.question = request(start)
        """the request whose answer `take` expects next"""

    def take(self, response: JobResponse) -> list[RowEnd] | None:
        """Return the outcomes in an answer; None if no further row can end."""
        if response.first == self._at:
            return None
        self._at = response.first
        self.question = self._request(self._at)
        ends = list(read_rows(response))
        seen = self._seen
        if seen is not None:
            ends = [end for end in ends if _is_new(seen, end.row)]
        self.n_rows += len(ends)
        return ends


@hints_at(OF_JOBS)
class Job:
    """A handle of work that the scheduler keeps under a name. To iterate over it is to iterate over its `results()`.

    Each method and property raises `JobError` if the job no longer exists, `DisconnectedError` if the client is
    disconnected, and `TimeoutError` if no scheduler answers for `timeout_seconds`.

    Attributes:
        name: the name of the job.
    """

    def __init__(self, name: str, link: ClientLink, serializer: Serializer, info: Info) -> None:
        self.name = name
        self._link, self._serializer = link, serializer
        self.heard = info
        self._read_work(info)
        self._end_question: JobQuestion | None = None
        """the latest request for the end of the job; while it is unanswered, all waits share it"""
        self._is_tolerant = bool(info["max_failures"])
        """whether the option `max_failures` is set, so that errors are returned as results"""
        self.leave: Callable[[], None] = _nothing
        """a function to call when the call that opened the job no longer uses it"""
        self.deadline: float | None = None
        """the deadline of the call that opened the job, in seconds of the monotonic clock; None: no deadline"""
        self.replace_function: Callable[[Info, bytes, Callable[..., Any]], None] = _without_functions

    def _read_work(self, info: Info) -> None:
        self.function = str(info["function"])
        self._work = bytes.fromhex(info["record"]) + int(info["work"]).to_bytes(4, "little")
        """the id of the job's record, and the number of the work (function and rows) whose results this handle reads"""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.function}: {self.shown}>"

    def _repr_html_(self) -> str:
        return markup.job(type(self).__name__, self.name, self.function, self.shown)

    def __dir__(self) -> list[str]:
        return [name for name in without_foreign_words(type(self), super().__dir__()) if name not in _INTERNAL]

    def __iter__(self) -> Iterator[Any]:
        return self.results()

    @property
    def shown(self) -> str:
        """The state and the numbers of rows that the scheduler reported last, as text for display. Sends no request."""
        info = self.heard
        if info["state"] == FORGOTTEN:
            return FORGOTTEN
        rows = f"{info['done']:,} of {'' if info['sealed'] else 'at least '}{info['rows']:,} rows done"
        failed = f", {info['failed']:,} failed" if info["failed"] else ""
        return f"{info['state']}, {rows}{failed}"

    @property
    def state(self) -> str:
        """The state of the job now: `open`, `paused`, `done`, `canceled` or `stopped`. Each use asks the scheduler."""
        return self.progress().state

    @property
    def rows(self) -> int:
        """The number of rows submitted so far. Each use asks the scheduler."""
        return self.progress().rows

    def progress(self) -> JobProgress:
        """Return the state of the job and its numbers of rows."""
        return progress_of(self._info())

    def wait(self, timeout: float | None = None, progress: bool = False) -> JobProgress:
        """Wait until the job is done, cancelled or stopped. Return the progress of the job.

        Args:
            timeout: the longest wait, in seconds; None waits without a limit.
            progress: whether to show a progress bar on standard error.

        Raises:
            TimeoutError: if the job has not ended within `timeout` seconds. The job continues.
            ConfigError: if `timeout` is not a number of seconds; it is a `ValueError`.
        """
        timeout = check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        question = self.sent_wait()
        if not progress:
            return self.end_of(wait(question, deadline))
        with self.new_bar() as bar:
            found = self.end_of(wait(question, deadline, bar.draw))
            bar.info = self.heard
        return found

    def results(self, start: int = 0, return_exceptions: bool = False) -> Iterator[Any]:
        """Iterate over the results in the order of the rows. Waits for each row that has not ended.

        Args:
            start: the number of the first row to return, from 0.
            return_exceptions: whether to yield the exception of a failed row instead of raising it; always true for a
                job with the option `max_failures`.

        Raises:
            BaseException: the exception of the first failed row, unless exceptions are yielded.
            TooManyFailuresError: if the job stopped because too many rows failed.
            CancelledError: if the job was cancelled before all rows ended.
            JobError: if the job stopped for another reason.
            JobConflictError: if another call has changed the job since this handle was made.
            TypeError: if `start` is not an `int`.
            ValueError: if `start` is negative or too large.
        """
        found = values_of(self.read(first_row(start)), self.tolerates(return_exceptions))
        return (value for _, value in found)

    def as_completed(self, return_exceptions: bool = False) -> Iterator[tuple[int, Any]]:
        """Iterate over (row number, result) in the order of completion, beginning with the rows that have ended.

        Args:
            return_exceptions: as for `results`.

        Raises: as `results`.
        """
        yield from values_of(self.read(flags=JobReadFlags.BY_LOG), self.tolerates(return_exceptions))

    def failures(self) -> list[FailedRow]:
        """Return the failed rows, with their exceptions and arguments, in the order of the rows."""
        found: list[FailedRow] = []
        while some := self._failures(found[-1].row + 1 if found else 0, 256):
            found += some
        return found

    def _failures(self, first: int, most: int) -> list[FailedRow]:
        rows = read_rows(ask(self._link, self._ask(JobVerb.FAILURES, first, most)))
        return [
            FailedRow(
                row,
                self._error_of(RowEnd(row, status, frames[:1])),
                arguments_text(self._serializer, bytes(frames[-1])),
            ).read_by(self._call_of)
            for row, status, frames in rows
        ]

    def _call_of(self, row: int, *, again: bool) -> FailedCall:
        from scaler.client.rerun.of_row import read_row  # noqa: PLC0415 - few programs need it

        return read_row(self._link, self.name, self._work, row, again=again)

    def versions(self) -> list[tuple[int, int, str, float]]:
        """Return (number, ended rows, program, time of creation) of each version; empty if the job never changed."""
        found = self._read_state(ask(self._link, self._ask(JobVerb.SHOW, amount=VERSIONS))).get("versions", ())
        return [(number, ended, program, created) for number, ended, program, created in found]

    def headlines(self, most: int) -> list[tuple[int, str]]:
        """Return (row number, error in one line) of the first failed rows, at most `most` rows. Unpickles nothing."""
        rows = read_rows(ask(self._link, self._ask(JobVerb.FAILURES, 0, most)))
        return [(end.row, headline(self._result_of(end), self._name_of(end.row))) for end in rows]

    def retry(self, fn: Callable[..., Any] | None = None) -> None:
        """Run failed rows again, and resume the job if it was cancelled or stopped.

        With the option `at_most_once`, only failed rows that were never sent to a worker run again.

        Args:
            fn: a corrected function for all failed and open rows; None keeps the function. Running rows start again
                with `fn`; done rows keep their results. Existing iterators over results then raise `JobConflictError`.

        Raises:
            JobError: if `at_most_once` lets no failed row run again; if the job no longer exists; or, with `fn`, if
                another program uses the job or has not submitted all rows.
            JobConflictError: if another call has changed the job, or another minor version of Python made it.
            TypeError, SerializeObjectError: if `fn` is not a function that `Client.map` takes.
        """
        if fn is not None:
            self.replace_function(self._info(), self._work, fn)
            self._read_work(self._info())
        self._read_state(ask(self._link, self._ask(JobVerb.RETRY, body=random_id()[:TOKEN_BYTES])))

    def cancel(self) -> None:
        """Cancel the job: interrupt running rows and start no further rows. Results of ended rows are kept."""
        self._read_state(ask(self._link, self._ask(JobVerb.CANCEL)))

    def forget(self) -> None:
        """Cancel the job and delete it with all its results."""
        ask(self._link, self._ask(JobVerb.FORGET))
        self.heard = {**self.heard, "state": FORGOTTEN}

    # Also used by `Client.map` and `AsyncJob`

    def _ask(self, verb: JobVerb, first: int = 0, amount: int = 0, body: bytes = b"", work: bytes = b"") -> JobQuestion:
        record = (work or self._work) if verb in _READING else self._work[:PREFIX_BYTES]
        return JobQuestion(verb, self.name, first, amount, body, (), record)

    def _sent(self, question: JobQuestion) -> JobQuestion:
        self._link.ask_job(question)
        return question

    def _read_state(self, response: JobResponse) -> Info:
        info: Info = read_info(response)
        self.heard = info
        return info

    def _info(self) -> Info:
        return self._read_state(ask(self._link, self._ask(JobVerb.SHOW)))

    def sent_wait(self) -> JobQuestion:
        """Return the request that the scheduler answers when the job ends. Send one if none is open."""
        if self._end_question is None or self._end_question.done():
            self._end_question = self._sent(self._ask(JobVerb.SHOW, amount=AT_END))
        return self._end_question

    def end_of(self, response: JobResponse) -> JobProgress:
        """Return the progress of the job from the answer to `sent_wait`."""
        return progress_of(self._read_state(response))

    def new_bar(self) -> JobBar:
        """Return a progress bar of the rows."""
        link = self._link
        return JobBar(self.heard, lambda: self._sent(self._ask(JobVerb.SHOW)), lambda: link.concern)

    def read(
        self, start: int = 0, flags: int = 0, deadline: float | None = None, draw: Callable[[], None] | None = None
    ) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Iterate over (number, value, error) of the rows, each once, until no further row can end.

        Args:
            start: the number of the first row; 0 with `BY_LOG`.
            flags: how to read: bits of `JobReadFlags`.
            draw: a function that is called from time to time during each wait, to draw a progress bar.

        Raises:
            TooManyFailuresError, JobError, CancelledError: if the job stopped or was cancelled before all rows ended.
            TimeoutError: if the deadline passes.
        """
        reader = self.reader(start, flags)
        while (ends := reader.take(wait(reader.question, deadline, draw))) is not None:
            yield from map(self.value_of, ends)
        self.check_end(reader.n_rows)

    def read_ended(self) -> Iterator[tuple[int, bool, Any, BaseException | None]]:
        """Iterate over (number, whether the row is done, value, error) of the rows that have ended, in their order.

        Open rows are left out. A done row has an error if its value cannot be read here.
        """
        reader = self.reader(0, JobReadFlags.ENDED_ONLY)
        while (ends := reader.take(wait(reader.question))) is not None:
            for end in ends:
                row, value, error = self.value_of(end)
                yield row, not end.status, value, error

    def tolerates(self, return_exceptions: bool) -> bool:
        """Return whether the error of a failed row is a result: if the user says so, or a number of rows may fail."""
        return return_exceptions or self._is_tolerant

    def reader(self, start: int, flags: int) -> OutcomeReader:
        """Return a reader of the rows from a position on. `flags`: bits of `JobReadFlags`."""
        work = self._work  # the work of this job now: later reads raise if it has changed
        return OutcomeReader(lambda at: self._sent(self._ask(JobVerb.READ, at, flags, work=work)), start, flags)

    def check_end(self, n_rows: int) -> None:
        """Raise an error if the job stopped, or was cancelled before all its rows ended."""
        info = self._info()
        if info["state"] == STOPPED:
            sentence = f"the job {self.name!r} has stopped: {info['reason']}"
            first = self._failures(0, 1) if is_too_many(info["reason"]) else []
            if not first:
                raise JobError(sentence)
            what = f"{type(first[0].error).__name__}: {first[0].error}"
            raise TooManyFailuresError(f"{sentence}; the first: {what}") from first[0].error
        if n_rows < info["rows"]:
            raise CancelledError(f"the job {self.name!r} was cancelled before all of its rows had ended")

    def value_of(self, end: RowEnd) -> tuple[int, Any, BaseException | None]:
        """Return the number, the value and the error of a row."""
        if end.status:
            return end.row, None, self._error_of(end)
        value, error = read_value(self._serializer, end.frames)
        return end.row, value, error and unread_result(error, self._name_of(end.row))

    def _error_of(self, end: RowEnd) -> BaseException:
        if end.status == TaskStatus.CANCELED:
            return CancelledError(f"row {end.row} was running when it was cancelled, and has the option at_most_once")
        return read_error(self._result_of(end), self._name_of(end.row))

    def _result_of(self, end: RowEnd) -> TaskResult:
        return TaskResult(TaskId(bytes(16)), end.status, bytes(end.frames[0]), 0)

    def _name_of(self, row: int) -> str:
        return name_of_item(self.function, row, None)


def first_row(start: Any) -> int:
    """Return the number of the first row to read. Raises `TypeError` or `ValueError` for any other value."""
    try:
        first = index(start)
    except TypeError:
        raise TypeError(f"start must be a row number, 0 or greater, not {shown(start)}") from None
    if not 0 <= first < 2**63:
        raise ValueError(f"start must be a row number, 0 or greater, not {shown(start)}")
    return first


def arguments_text(serializer: Serializer, block: bytes) -> str:
    """Return serialised arguments as shortened text. Objects stored elsewhere are not fetched."""
    try:
        read = partial(read_arguments, block, lambda *parts: read_value(serializer, parts)[0])
        positional, keywords = read(lambda _object_id, _own: _ELSEWHERE)
    except (ScalerError, ValueError, struct.error):
        return "..."
    return shown_arguments(positional, keywords)


class _AbsentObject:
    """A placeholder for an object that rows refer to."""

    def __repr__(self) -> str:
        return "an object"


_ELSEWHERE = _AbsentObject()


def _without_functions(_info: Info, _work: bytes, _fn: Callable[..., Any]) -> None:
    raise TypeError("only a client can replace the function of a job: client.job(name).retry(fn)")


def _nothing() -> None:
    """Do nothing. This is the `leave` of a job that was only looked up and is not in use."""


def values_of(
    outcomes: Iterable[tuple[int, Any, BaseException | None]], return_exceptions: bool
) -> Iterator[tuple[int, Any]]:
    """Iterate over (row number, result). Raises the error of a failed row, or yields it if `return_exceptions`."""
    for row, value, error in outcomes:
        if error is not None and not return_exceptions:
            try:
                raise error
            finally:
                del outcomes, value, error  # an exception and the frame that raised it would keep each other alive
        yield row, value if error is None else error


def _is_new(seen: Seen, row: int) -> bool:
    word, bit = row // 64, 1 << row % 64
    was_seen = seen[word] & bit
    seen[word] |= bit
    return not was_seen


def progress_of(info: Info) -> JobProgress:
    """Return the progress of a job from its state as the scheduler reports it."""
    rows, done, failed, is_sealed = info["rows"], info["done"], info["failed"], bool(info["sealed"])
    is_complete = is_sealed and done + failed == rows
    more = (info["reason"], info["bytes"], info["seconds"], is_sealed, info["handed_out"], info["running"])
    return JobProgress(info["state"], rows, done, failed, is_complete, *more)
