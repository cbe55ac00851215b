"""JobState: the summary of one job in memory: its state, how many rows have ended, and its size.

Created by the job keeper, changed by the job, and read by the handlers of requests. It does not access the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scaler.actors.jobs.open_rows import OpenRows
from scaler.jobs.failures import exceeds, too_many
from scaler.jobs.record import FAILURES_SHOWN, OPEN, JobRecord, JobSummary, RowResult
from scaler.jobs.terms import PAUSED
from scaler.keys.allowed import Lockout
from scaler.wire.messages.common import TaskStatus


class JobState:
    """The state of a job in memory.

    Args:
        is_new: whether no scheduler has submitted any of the rows before.
        is_new_version: whether this scheduler has just begun a new version of the job.
    """

    is_at_most_once = False

    is_fresh = True
    """whether programs of the job may still be reconnecting after a start of the scheduler"""

    def __init__(self, record: JobRecord, rows: OpenRows, is_new: bool, is_new_version: bool = False) -> None:
        self.rows, self.terms, self.is_new, self.is_new_version = rows, record.terms, is_new, is_new_version
        self.record_id = record.record_id
        self.state, self.reason, self.is_sealed = record.state, record.reason, record.is_sealed
        self.size_bytes, self.changed, self.duration_us = record.size_bytes, record.changed, record.duration_us
        self.failures = list(record.first_failures)
        """the failures of the first failed rows"""
        self.max_failures = self.terms.max_failures
        self.trouble = ""
        """why nothing can be written at the moment"""
        self.lockout: Lockout | None = None

    @property
    def is_open(self) -> bool:
        """Whether the job has not ended."""
        return bool(self.state == OPEN)

    @property
    def why_paused(self) -> str:
        """Why no row may begin, as a sentence; empty if rows may begin."""
        return self.lockout.reason if self.lockout is not None and self.is_open else self.trouble

    def end(self, results: Sequence[RowResult]) -> Iterator[Sequence[int]]:
        """Count results that are on disk. Yield the rows that had not ended before."""
        for result in results:
            is_failure = result.status != TaskStatus.SUCCESS
            new = self.rows.end(result.row, result.n_rows, is_failure=is_failure)
            if new and is_failure and len(self.failures) < FAILURES_SHOWN:
                self.failures.append(result)
            yield new

    def reopen(self, rows: Sequence[int], n_done: int = 0) -> None:
        """Count ended rows as open, since they run again. `n_done`: how many of the rows were done."""
        again = set(rows)
        self.failures = [each for each in self.failures if each.row not in again]
        self.rows.reopen(rows, n_done)

    def lose(self, damaged: Sequence[RowResult]) -> None:
        """Count done rows as failed, since their results on disk are damaged."""
        self.rows.done -= len(damaged)
        self.rows.failed += len(damaged)
        self.failures = [*self.failures, *damaged][:FAILURES_SHOWN]

    def why_stop(self) -> str:
        """Return a sentence if the job is open and too many rows have failed; else an empty text."""
        most, failed, ended = self.max_failures, self.rows.failed, self.rows.done + self.rows.failed
        if most is None or not self.is_open:
            return ""
        is_end = self.is_sealed and not self.rows.n_open
        return too_many(most, failed, ended, "rows") if exceeds(most, failed, ended, is_end) else ""

    def summary(self) -> JobSummary:
        """Return a summary of the job in one line, for screens."""
        rows, state = self.rows, PAUSED if self.lockout is not None and self.is_open else self.state
        return JobSummary(
            self.terms, state, self.reason or self.why_paused, self.is_sealed, rows.rows, rows.done, rows.failed,
            self.size_bytes, self.changed, tuple(self.failures), rows.n_submitted, self.record_id,
        )  # fmt: skip

    def info(self) -> dict[str, Any]:
        """Return the state of the job, for clients."""
        terms = self.terms
        more = {"options": terms.options.hex(), "token": terms.token, "seconds": self.duration_us / 1e6}
        more |= {"priority": terms.priority, "task_name": terms.task_name}
        return {**self.summary().info(), **more, "python": terms.python, "fingerprint": terms.fingerprint}
