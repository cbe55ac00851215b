"""Failed call of a row of a job: read from the record of the job, with the record's own copies of function and objects.

Each request blocks the calling thread, like all requests about jobs. The function is that of the latest version of the
job. Modules that travel with the job are those of this program, if it has them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from scaler.client.jobs.job_requests import JobMissingError, RowEnd, ask, read_rows
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import JobQuestion
from scaler.client.rerun.failed_call import FailedCall, check_may_repeat
from scaler.errors import JobConflictError, JobError, ProtocolError, RerunError
from scaler.ids import split_ids
from scaler.pickling.serialization import Frames
from scaler.processor.execution.place import ProcessFacts
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.client import JobResponse, JobVerb
from scaler.wire.messages.common import TaskStatus


def read_row(link: ClientLink, job: str, work: bytes, row: int, *, again: bool) -> FailedCall:
    """Return the call of a failed row. `work`: the id of the job's record, and the number of the work that the handle
    reads.

    Raises:
        RerunError: if the row must not run again, or a part of its call is lost.
        JobConflictError: if another call has changed the job since the handle was made.
        JobError: if the job no longer exists.
    """
    return _Row(link, job, work, row).read(again=again)


class _Row:
    def __init__(self, link: ClientLink, job: str, work: bytes, row: int) -> None:
        self._link, self._job, self._work, self._row = link, job, work, row

    def read(self, *, again: bool) -> FailedCall:
        label = f"row {self._row} of the job {self._job!r}"
        response = self._part(JobVerb.ARGUMENTS, f"the arguments of {label}")
        call, (payload, object_ids, *frames) = json.loads(response.body), response.frames
        options = bytes.fromhex(call["options"])
        check_may_repeat(label, options, again=again)
        function = self._stored(bytes.fromhex(call["function_id"]), f"the function of {label}")
        objects = {each: self._stored(each, f"an object among the arguments of {label}") for each in _ids(object_ids)}
        task_id, failure = bytes.fromhex(call["task_id"]), self._failure()
        place, notes = _place_of(failure), self._notes(call, failure)
        return FailedCall(
            label, call["name"], task_id, function, bytes(payload), frames, options, objects, place, notes
        )

    def _stored(self, object_id: bytes, what: str) -> Frames:
        return self._part(JobVerb.STORED, what, object_id).frames

    def _part(self, verb: JobVerb, what: str, body: bytes = b"") -> JobResponse:
        """Request a part of the call. Raises `RerunError` for a lost part, and `JobError` for a removed job."""
        try:
            return self._ask(verb, body=body)
        except (JobConflictError, JobMissingError):
            raise
        except JobError as error:
            raise RerunError(f"{what} cannot be read from the record of the job: {error}") from None

    def _ask(self, verb: JobVerb, amount: int = 0, body: bytes = b"") -> JobResponse:
        return ask(self._link, JobQuestion(verb, self._job, self._row, amount, body, (), self._work))

    def _failure(self) -> RowEnd | None:
        """Return how the row failed; None if the record no longer has the failure, because the row runs again."""
        found = read_rows(self._ask(JobVerb.FAILURES, amount=1))
        return next((each for each in found if each.row == self._row), None)

    def _notes(self, call: dict[str, Any], failure: RowEnd | None) -> Sequence[str]:
        if failure is None:
            return ("failure: no longer in the record, because the row has run again since",)
        ran, latest = call["ran"], call["version"]
        if ran in (-1, latest):
            return ()
        return (f"function: version {latest} of the job here; the row ran with version {ran}",)


def _place_of(failure: RowEnd | None) -> ProcessFacts | None:
    if failure is None or failure.status != TaskStatus.FAILED:
        return None
    try:
        return ProcessFacts.decode(TaskFailure.decode(bytes(failure.frames[0])).place)
    except ProtocolError:
        return None


def _ids(object_ids: Any) -> list[bytes]:
    return [*dict.fromkeys(split_ids(bytes(object_ids)))]
