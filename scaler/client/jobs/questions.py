"""Questions about jobs, and their answers, one at a time.

Made in the thread that waits; answered by the link's thread. A question is asked again when the scheduler is another
one, so a wait outlives it.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, NamedTuple

from scaler.client.link.link import Link
from scaler.client.link.requests import JobQuestion
from scaler.errors import JobError
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import JobResponse, JobStatus
from scaler.wire.messages.rows import unpack

_HEAD = struct.Struct("<QIBI")

Info = dict[str, Any]


class RowEnd(NamedTuple):
    """How a row has ended. `status`: a `TaskStatus`."""

    row: int
    status: int
    frames: Frames


def wait(question: JobQuestion, deadline: float | None = None) -> JobResponse:
    """Wait for an answer that is not a refusal.

    Args:
        deadline: of the monotonic clock.

    Raises:
        JobError: if it was refused, or there is no such job.
        TimeoutError: if it is too late.
    """
    try:
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        return checked(question.result(seconds))
    except FutureTimeoutError:
        if question.done():
            raise
        raise TimeoutError("the job has not come so far in time; what has ended is kept") from None


def checked(response: JobResponse) -> JobResponse:
    """Return an answer that is not a refusal. Raises `JobError`."""
    if response.status in (JobStatus.REFUSED, JobStatus.NOT_FOUND):
        raise JobError(response.reason)
    return response


def ask(link: Link, question: JobQuestion, deadline: float | None = None) -> JobResponse:
    """Ask, and wait for the answer. Raises as `wait` does."""
    link.ask_job(question)
    return wait(question, deadline)


def read_info(response: JobResponse) -> Any:
    """Return what is known of a job, or of all."""
    return json.loads(response.body)


def read_rows(response: JobResponse) -> Iterator[RowEnd]:
    """Go through the rows of an answer."""
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
