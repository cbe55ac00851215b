"""Answers to what clients ask of jobs, as items for the wire.

Used by the job keeper and the jobs. Must never: read a value.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from scaler.jobs.record import Result
from scaler.jobs.values import Row, pack_sizes
from scaler.wire.messages.client import JobRequest, JobResponse, JobStatus

RESULT_HEAD = struct.Struct("<QIBI")
"""Of neighbours that have ended alike: the first row, how many, their status, the number of frames. The sizes of these
follow, 8 bytes each. Of several rows there is one frame, in which theirs are packed."""


def info_of(request: JobRequest, info: dict[str, Any]) -> JobResponse:
    """Return what is known of a job."""
    return JobResponse(request.number, JobStatus.KNOWN, 0, 0, json.dumps(info).encode())


def refused(request: JobRequest, reason: str, status: JobStatus = JobStatus.REFUSED) -> JobResponse:
    """Return a refusal, with its reason as a sentence."""
    return JobResponse(request.number, status, 0, 0, b"", reason[:1000])


def results_of(request: JobRequest, results: Sequence[Result], first: int) -> JobResponse:
    """Return how rows have ended; none: no further rows end."""
    return _rows(request, first, results)


def failures_of(request: JobRequest, found: Sequence[tuple[Result, Row]]) -> JobResponse:
    """Return failed rows: the frame of each failure, and the block of its arguments."""
    each = (Result(result.row, result.status, (*result.frames, row.payload)) for result, row in found)
    return _rows(request, request.first, each)


def _rows(request: JobRequest, first: int, results: Iterable[Result]) -> JobResponse:
    heads: list[bytes] = []
    bodies: list[Any] = []
    count = 0
    for row, status, frames, n_rows, _ in results:
        heads += (RESULT_HEAD.pack(row, n_rows, status, len(frames)), pack_sizes(frames))
        bodies += frames
        count += n_rows
    blob = b"".join(bodies)
    return JobResponse(request.number, JobStatus.ROWS, first, count, b"".join(heads), "", (blob,) if blob else ())


def said_max_failures(request: JobRequest, known: float | None) -> float | None:
    """Return how many rows may fail as a client says it now, if it does."""
    try:
        said = json.loads(request.body)["max_failures"]
        return None if said is None else float(said)
    except (ValueError, TypeError, KeyError):
        return known
