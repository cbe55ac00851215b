"""Answers to requests of clients about jobs, as items for the wire.

Used by the job keeper, the jobs and the job reader. Values stay pickled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaler.actors.messages.jobs import RequestJob
from scaler.ids import ID_BYTES, PREFIX_BYTES, random_id
from scaler.jobs.record import JobTerms
from scaler.jobs.terms import KEEP_SECONDS
from scaler.texts import read_json
from scaler.wire.messages.client import JobAnswerKind, JobRequest, JobResponse, JobVerb


def known(request: JobRequest, facts: Mapping[str, Any] | None = None, frames: Sequence[Any] = ()) -> JobResponse:
    """Return an answer with facts, such as the state of a job, or frames. One with neither acknowledges the request."""
    body = json.dumps(facts or {}).encode()
    return JobResponse(request.number, JobAnswerKind.KNOWN, 0, 0, body, "", tuple(frames))


def refused(
    request: JobRequest, reason: str, status: JobAnswerKind = JobAnswerKind.REFUSED, row: int = 0
) -> JobResponse:
    """Return a refusal.

    Args:
        reason: a sentence that says why the request is refused.
        row: the row that differs from the stored row, if `status` is `CONFLICT`.
    """
    return JobResponse(request.number, status, row, 0, b"", reason[:1000])


def waits(request: JobRequest, reason: str) -> JobResponse:
    """Return an answer that says that the request has to wait. `reason`: why the job is idle; empty if the job runs."""
    return refused(request, reason, JobAnswerKind.WAITS)


def changed_by_another(request: JobRequest, terms: JobTerms) -> JobResponse:
    """Return the refusal of a request by a client that knows an earlier work of the job."""
    reason = f"{terms.program or 'another program'} has changed the job {request.name!r}: look it up again"
    return refused(request, reason, JobAnswerKind.CONFLICT)


def other_job(request: JobRequest, record_id: bytes, terms: JobTerms) -> JobResponse | None:
    """Return the refusal of a request for an earlier job of this name, or for rows or a function that have changed.

    None for any other request.
    """
    asked_id, work = request.record[:PREFIX_BYTES], request.record[PREFIX_BYTES:]
    if asked_id and asked_id != record_id:
        reason = f"that job {request.name!r} was forgotten, and another one has its name now"
        is_gone = request.verb == JobVerb.FORGET
        return known(request) if is_gone else refused(request, reason, JobAnswerKind.NOT_FOUND)
    if work and int.from_bytes(work, "little") != terms.work:
        return changed_by_another(request, terms)
    return None


_SIGNED_32 = (-(2**31), 2**31 - 1)
_TIMES = (0, 2**40)
_NUMBER = (int, float)
_TYPES: dict[str, tuple[type, ...]] = {
    "fingerprint": (dict,), "function_id": (str,), "function": (str,), "program": (str,), "python": (str,),
    "options": (str,), "priority": (int,), "task_name": (str,), "attended": (bool,), "token": (str,),
    "keep_seconds": (*_NUMBER, type(None)), "created": _NUMBER, "max_failures": (*_NUMBER, type(None)),
}  # fmt: skip
_BOUNDS: dict[str, tuple[int, int]] = {
    "priority": _SIGNED_32, "keep_seconds": _TIMES, "created": _TIMES, "max_failures": (0, 2**53)
}  # fmt: skip


def term_of(request: JobRequest, name: str, known: float | None) -> float | None:
    """Return a number from the terms in a request's body; `known` if the number is missing or invalid."""
    try:
        value = _checked(name, read_json(request.body)[name])
    except (ValueError, TypeError, KeyError):
        return known
    return None if value is None else float(value)


def _checked(name: str, value: Any) -> Any:
    """Return the value of an entry of a job's terms. Raises `ValueError` if the value is invalid."""
    if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and bool not in _TYPES[name]):
        expected = " or ".join(each.__name__ for each in _TYPES[name])
        raise ValueError(f"{name} must be of the type {expected}, not {type(value).__name__}")
    if isinstance(value, _NUMBER) and name in _BOUNDS:
        least, most = _BOUNDS[name]
        if not least <= value <= most:
            raise ValueError(f"{name} is {value}, and must be from {least:,} to {most:,}")
    return value


def terms_of(
    asked: RequestJob, owner: str, read_options: Callable[[bytes], object], keep_seconds: float = KEEP_SECONDS
) -> JobTerms:
    """Return the terms of a new job, or of a new version of a job.

    Args:
        keep_seconds: how long the job is kept if `keep_seconds` is null in the body of the request.

    Raises:
        ValueError: if the body of the request does not hold valid terms.
        ProtocolError: if the options in the body are not the options of a task.
    """
    request = asked.request
    given = {"token": "", **_object(read_json(request.body))}
    missing = ", ".join(sorted(_TYPES.keys() - given))
    if missing:
        raise ValueError(f"the terms of the job have no {missing}")
    terms = {name: _checked(name, given[name]) for name in _TYPES}
    if not all(isinstance(digest, str) for digest in terms["fingerprint"].values()):
        raise ValueError("the digests of the fingerprint must be of the type str")
    function_id, options = bytes.fromhex(terms["function_id"]), bytes.fromhex(terms["options"])
    most, keep = terms["max_failures"], terms["keep_seconds"]
    if len(function_id) != ID_BYTES:
        raise ValueError(f"function_id must have {ID_BYTES} bytes, not {len(function_id)}")
    read_options(options)
    return JobTerms(
        request.name, owner, random_id()[:PREFIX_BYTES], function_id, terms["function"], terms["program"],
        terms["python"], terms["fingerprint"], options, terms["priority"], terms["task_name"], terms["attended"],
        None if most is None else float(most), keep_seconds if keep is None else float(keep), float(terms["created"]),
        token=terms["token"], door=asked.door,
    )  # fmt: skip


def token_of(request: JobRequest) -> str:
    """Return the token in a request's body, or an empty text. Raises `ValueError` if the body is no JSON object."""
    return str(_object(read_json(request.body)).get("token", ""))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"the terms must be a JSON object, not {type(value).__name__}")  # noqa: TRY004
    return value
