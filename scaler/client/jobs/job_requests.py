"""Job requests: send a request about a job, wait for its answer, perhaps with a progress bar, and decode the answer.

Requests are created in the thread that waits and answered in the link's thread. Each new session resends open
requests, so a wait survives a restart of the scheduler.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import TimeoutError as FutureTimeoutError
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from scaler.client.link.link import ClientLink
from scaler.client.link.requests import JobQuestion
from scaler.client.progress.bar import REDRAW_SECONDS, Progress
from scaler.errors import JobConflictError, JobError
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import JobAnswerKind, JobResponse
from scaler.wire.messages.rows import unpack

if TYPE_CHECKING:
    from typing_extensions import Self

ASK_SECONDS = 0.5
"""The time between two requests of a progress bar for the state of the job."""

_HEAD = struct.Struct("<QIBI")

Info = dict[str, Any]


class JobChangedError(JobConflictError):
    """Another call has changed the job since this call compared its rows."""


class JobMissingError(JobError):
    """The scheduler has no job of this name, or has another job of this name than the client knows."""


_ERRORS: dict[int, type[JobError]] = {
    JobAnswerKind.CHANGED: JobChangedError,
    JobAnswerKind.CONFLICT: JobConflictError,
    JobAnswerKind.NOT_FOUND: JobMissingError,
    JobAnswerKind.REFUSED: JobError,
}


class RowEnd(NamedTuple):
    """The outcome of a row. `status` is a `TaskStatus`."""

    row: int
    status: int
    frames: Frames


def wait(question: JobQuestion, deadline: float | None = None, draw: Callable[[], None] | None = None) -> JobResponse:
    """Wait for the answer to a request. Raises `TimeoutError`, or an error as `checked` does.

    Args:
        deadline: the end of the wait, in seconds of the monotonic clock; None waits without a limit.
        draw: a function that is called every `REDRAW_SECONDS` during the wait, to draw a progress bar.
    """
    while draw is not None and not question.done() and (left := seconds_left(deadline)):
        draw()
        futures.wait((question,), min(left, REDRAW_SECONDS))
    try:
        return checked(question.result(None if deadline is None else seconds_left(deadline)))
    except FutureTimeoutError:
        if question.done():
            raise
        why = f": the job waits because {question.waits_for}" if question.waits_for else ""
        raise TimeoutError(
            f"the job, or its next row, did not end within the timeout{why}. Results of ended rows are kept"
        ) from None


def seconds_left(deadline: float | None) -> float:
    """Return the seconds until a deadline; 0 if the deadline has passed."""
    return inf if deadline is None else max(0.0, deadline - time.monotonic())


def checked(response: JobResponse) -> JobResponse:
    """Return an answer. Raises `JobConflictError` or `JobError` if it is a conflict, a refusal, or "not found"."""
    error = _ERRORS.get(response.status)
    if error is not None:
        raise error(response.reason)
    return response


def ask(link: ClientLink, question: JobQuestion, deadline: float | None = None) -> JobResponse:
    """Send a request and wait for its answer. Raises as `wait` does."""
    link.ask_job(question)
    return wait(question, deadline)


def read_info(response: JobResponse) -> Any:
    """Decode an answer. Return the state of a job, or a list of the states of jobs."""
    return json.loads(response.body)


def read_rows(response: JobResponse) -> Iterator[RowEnd]:
    """Iterate over the row outcomes in an answer."""
    heads, at = response.body, 0
    values, begin = memoryview(response.frames[0] if response.frames else b""), 0
    while at < len(heads):
        row, n_rows, status, n_frames = _HEAD.unpack_from(heads, at)
        sizes = struct.unpack_from(f"<{n_frames}Q", heads, at + _HEAD.size)
        at += _HEAD.size + 8 * n_frames
        frames = []
        for size in sizes:
            frames.append(values[begin : begin + size])
            begin += size
        if n_rows == 1:
            yield RowEnd(row, status, frames)
        else:
            for each, block in enumerate(unpack(bytes(frames[0]), n_rows), row):
                yield RowEnd(each, status, (block,))


class JobBar:
    """A progress bar of the rows of a job, drawn by the thread or coroutine that waits.

    The bar asks the scheduler for the numbers of rows twice a second. It is drawn for the last time at the end of its
    `with` block.

    Args:
        ask: a function that sends a request for the state of the job.
        concern: a function that returns why no scheduler answers; empty if a scheduler answers.
    """

    def __init__(self, info: Info, ask: Callable[[], JobQuestion], concern: Callable[[], str]) -> None:
        self.info, self._ask, self._link_concern = info, ask, concern
        self._question: JobQuestion | None = None
        self._ask_at = time.monotonic() + ASK_SECONDS
        self._bar = Progress(_total(info), sys.stderr, self._concern, done=_ended(info)[0])

    def draw(self) -> None:
        """Draw the latest numbers of rows. If the next request is due, send it."""
        if self._question is not None and self._question.done():
            if not self._question.exception():  # otherwise the wait for the job ends with that error, too
                self.info = read_info(checked(self._question.result()))
            self._question = None
        if self._question is None and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + ASK_SECONDS
            self._question = self._ask()
        self._bar.total = _total(self.info)
        self._bar.update(*_ended(self.info))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.total = _total(self.info)
        self._bar.finish(*_ended(self.info))

    def _concern(self) -> str:
        return self._link_concern() or str(self.info["reason"])


def _ended(info: Info) -> tuple[int, int]:
    return info["done"] + info["failed"], info["failed"]


def _total(info: Info) -> int | None:
    return info["rows"] if info["sealed"] else None
