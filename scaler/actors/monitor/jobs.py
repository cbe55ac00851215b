"""Jobs: the topic `jobs`: the jobs that the scheduler keeps, read from the catalog of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

_LINE_CHARACTERS = 180  # of the 4096 of the text with all lines


class ShownJobs:
    """The jobs of a catalog as items. The failures of a job are read again only if they have changed."""

    def __init__(self, board: Board, jobs: SeenJobs) -> None:
        self._board, self._jobs = board, jobs
        self._failures: dict[bytes, tuple[Sequence[RowResult], str]] = {}
        """by the prefix of a job: its failures, and their text"""

    def items(self) -> tuple[list[StateJob], int]:
        """Return the items of the topic `jobs`, and the number of all jobs."""
        jobs = self._jobs.values()
        shown = nlargest(JOBS_MOST, jobs, key=lambda each: (each.state in (OPEN, PAUSED), each.changed))
        self._failures = {each.terms.prefix: (each.failures, self._text(each)) for each in shown if each.failures}
        return [self._item(each) for each in shown], len(jobs)

    def _text(self, job: JobSummary) -> str:
        failures, text = self._failures.get(job.terms.prefix, ((), ""))
        return text if failures is job.failures else "\n".join(_lines(self._board, job.failures))

    def _item(self, job: JobSummary) -> StateJob:
        terms, live = job.terms, job.live
        _, failures = self._failures.get(terms.prefix, ((), ""))
        return StateJob(
            public_id(terms.prefix), terms.name, terms.owner, terms.program, terms.function, job.state, job.reason,
            int(job.is_sealed), job.rows, job.done, job.failed, live.handed_out, live.running, job.size_bytes,
            int(1e6 * terms.created), int(1e6 * job.changed), failures,
        )  # fmt: skip


def _lines(board: Board, failures: Iterable[RowResult]) -> Iterator[str]:
    for row, status, frames, *_ in failures:
        payload = bytes(frames[0])
        raised = board.read_failure(payload) if status == TaskStatus.FAILED else payload.decode("utf-8", "replace")
        text = raised.partition("\n")[0][:_LINE_CHARACTERS]
        yield f"row {row}: {text or TaskStatus(status).name.lower().replace('_', ' ')}"
