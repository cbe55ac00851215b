"""How a handle of a job reads rows: each once and in order, whatever the scheduler does in between."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeAlias, cast

import pytest

from scaler.client.aio.job import AsyncJob
from scaler.client.jobs.job import Job
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import JobQuestion
from scaler.pickling.serialization import DEFAULT_SERIALIZER
from scaler.wire.messages.client import JobAnswerKind, JobReadFlags, JobResponse, JobVerb
from tests.support.faces import CANCELLED

N_ROWS, AT_ONCE = 10, 3
INFO: dict[str, Any] = {
    "state": "done", "rows": N_ROWS, "done": N_ROWS, "failed": 0, "sealed": True, "reason": "", "bytes": 0,
    "seconds": 0.0, "function": "price", "record": "11" * 8, "work": 0, "max_failures": None,
}  # fmt: skip


class AnsweringLink:
    """A link to a scheduler that answers each request when it is sent, at most `AT_ONCE` rows at a time."""

    def __init__(self) -> None:
        self.info, self.logs, self.reads = INFO, [[*range(N_ROWS)]], list[int]()
        self.restart_at = 0
        """the number of the `READ` request before which the next scheduler starts"""
        self.next_log: list[int] = []

    def ask_job(self, question: JobQuestion) -> None:
        verb, _, first, flags, *_ = question._request
        question.take(self.read(first, flags) if verb == JobVerb.READ else self.state())

    def state(self) -> JobResponse:
        return JobResponse(0, JobAnswerKind.KNOWN, 0, 0, json.dumps(self.info).encode())

    def read(self, position: int, flags: int) -> JobResponse:
        """Answer as a scheduler that has made the last one of the logs."""
        self.reads.append(flags)
        if len(self.reads) == self.restart_at:
            self.logs.append(self.next_log)
        begin = len(self.logs) * 1000 if flags & JobReadFlags.BY_LOG else 0
        log = self.logs[-1] if begin else range(N_ROWS)
        position = position if begin <= position < begin + 1000 else begin
        rows = log[position - begin :][:AT_ONCE]
        values = [DEFAULT_SERIALIZER.serialize(row) for row in rows]
        heads = [struct.pack("<QIBIQ", row, 1, 0, 1, len(value)) for row, value in zip(rows, values, strict=True)]
        blob = b"".join(values)
        end = position + len(rows)
        return JobResponse(0, JobAnswerKind.ROWS, end, len(rows), b"".join(heads), "", (blob,) if blob else ())


@pytest.fixture
def link() -> AnsweringLink:
    return AnsweringLink()


@pytest.fixture
def job(link: AnsweringLink) -> Job:
    return Job("orders", cast("ClientLink", link), DEFAULT_SERIALIZER, INFO)


Read: TypeAlias = Callable[..., list[Any]]


@pytest.fixture(params=[Job, AsyncJob])
def read(request: pytest.FixtureRequest, job: Job) -> Read:
    """Return all items of an iterator that a method of the job returns, awaited or not."""

    async def awaited(method: str, *arguments: Any) -> list[Any]:
        return [each async for each in getattr(AsyncJob(job), method)(*arguments)]

    if request.param is AsyncJob:
        return lambda *call: asyncio.run(awaited(*call))
    return lambda method, *arguments: list(getattr(job, method)(*arguments))


def test_results_are_read_in_row_order_from_any_row(job: Job, read: Read) -> None:
    assert read("results") == [*range(N_ROWS)]
    assert read("results", 4) == [*range(4, N_ROWS)]
    assert read("results", N_ROWS) == []
    assert [(row, is_done, value) for row, is_done, value, _ in job.read_ended()] == [
        (row, True, row) for row in range(N_ROWS)
    ]


def test_a_row_that_has_ended_again_is_returned_once(read: Read, link: AnsweringLink) -> None:
    link.logs = [[3, 4, 9, 3, 0, 1, 2, 4, 4, 5, 6, 7, 8, 9]]
    assert read("as_completed") == [(row, row) for row in (3, 4, 9, 0, 1, 2, 5, 6, 7, 8)]


@pytest.mark.parametrize("restart_at", [1, 2, 3, 4])
def test_rows_are_returned_once_if_another_scheduler_has_another_log(
    read: Read, link: AnsweringLink, restart_at: int
) -> None:
    link.restart_at, link.logs, link.next_log = restart_at, [[7, 2, 9, 4, 0, 1, 3]], [2, 4, 7, 9, 8, 0, 6, 5, 1, 3]
    assert sorted(row for row, _ in read("as_completed")) == [*range(N_ROWS)]
    assert len(link.logs) == 2


@pytest.mark.parametrize("by_log", [False, True])
def test_the_next_answer_is_requested_before_rows_are_returned(job: Job, link: AnsweringLink, by_log: bool) -> None:
    rows = job.as_completed() if by_log else job.results()
    flags = JobReadFlags.BY_LOG if by_log else 0
    next(rows)
    assert link.reads == [flags] * 2
    assert len(list(islice(rows, AT_ONCE - 1))) == 2
    assert link.reads == [flags] * 2
    next(rows)
    assert link.reads == [flags] * 3


@pytest.mark.parametrize("by_log", [False, True])
def test_the_end_before_all_rows_have_ended_is_an_error(read: Read, link: AnsweringLink, by_log: bool) -> None:
    link.info = {**INFO, "state": "canceled", "rows": N_ROWS + 1}
    with pytest.raises(CANCELLED, match="was cancelled before all of its rows had ended"):
        read("as_completed" if by_log else "results")
