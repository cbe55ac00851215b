"""Jobs: the topic `jobs`: the jobs that the scheduler keeps, read from the catalog of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest

from scaler.actors.jobs.job_catalog import SeenJobs
from scaler.actors.monitor.board import Board
from scaler.ids import public_id
from scaler.jobs.record import OPEN, JobSummary, RowResult
from scaler.jobs.terms import PAUSED
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.monitor import StateJob

JOBS_MOST = 100
"""Limit of the jobs that are shown. Open jobs come first, then the jobs that were changed last."""

_LINE_CHARACTERS = 400


def job_items(board: Board, jobs: SeenJobs) -> tuple[list[StateJob], int]:
    """Return the items of the topic `jobs`, and the number of all jobs."""
    shown = nlargest(JOBS_MOST, jobs.values(), key=lambda each: (each.state in (OPEN, PAUSED), each.changed))
    return [_item(board, each) for each in shown], len(jobs)


def _item(board: Board, job: JobSummary) -> StateJob:
    terms = job.terms
    failures = "\n".join(_lines(board, job.failures))
    return StateJob(
        public_id(terms.prefix), terms.name, terms.owner, terms.program, terms.function, job.state, job.reason,
        int(job.is_sealed), job.rows, job.done, job.failed, job.said, job.size_bytes, int(1e6 * terms.created),
        int(1e6 * job.changed), failures,
    )  # fmt: skip


def _lines(board: Board, failures: Iterable[RowResult]) -> Iterator[str]:
    for row, status, frames, *_ in failures:
        payload = bytes(frames[0])
        raised = board.read_failure(payload) if status == TaskStatus.FAILED else payload.decode("utf-8", "replace")
        text = raised.partition("\n")[0][:_LINE_CHARACTERS]
        yield f"row {row}: {text or TaskStatus(status).name.lower().replace('_', ' ')}"
