"""Answers to what clients ask of jobs, as items for the wire.

Used by the job keeper and the jobs. Must never: read a value.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from scaler.ids import ID_BYTES, PREFIX_BYTES, random_id
from scaler.jobs.record import JobTerms, Result
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


def known(request: JobRequest, frames: Sequence[Any] = ()) -> JobResponse:
    """Return an answer that consists of frames alone, or an acknowledgement."""
    return JobResponse(request.number, JobStatus.KNOWN, request.first, 0, b"{}", "", tuple(frames))


def waits(request: JobRequest, reason: str) -> JobResponse:
    """Return why the answer to a request has to wait."""
    return JobResponse(request.number, JobStatus.WAITS, 0, 0, b"", reason[:1000])


def conflict(request: JobRequest, row: int, reason: str) -> JobResponse:
    """Return that a row differs from the one that is kept."""
    return JobResponse(request.number, JobStatus.CONFLICT, row, 0, b"", reason[:1000])


def changed(request: JobRequest, reason: str) -> JobResponse:
    """Return that the job has another revision than the one that the client has compared."""
    return JobResponse(request.number, JobStatus.CHANGED, 0, 0, b"", reason[:1000])


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


def terms_of(request: JobRequest, owner: str) -> JobTerms:
    """Return the terms of a new job.

    Raises:
        ValueError, TypeError, KeyError: if they are no terms.
    """
    said = json.loads(request.body)
    fingerprint = {str(part): str(digest) for part, digest in said["fingerprint"].items()}
    function_id, most = bytes.fromhex(said["function_id"]), said["max_failures"]
    if len(function_id) != ID_BYTES:
        raise ValueError("the id of its function has a wrong length")
    return JobTerms(
        request.name, owner, random_id()[:PREFIX_BYTES], function_id, str(said["function"]), str(said["program"]),
        str(said["python"]), fingerprint, bytes.fromhex(said["options"]), int(said["priority"]),
        str(said["task_name"]), bool(said["attended"]), None if most is None else float(most),
        float(said["keep_seconds"]), float(said["created"]), token=str(said["token"]),
    )  # fmt: skip
