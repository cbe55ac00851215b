"""Jobs: mutants of what a scheduler keeps, chosen from the how-to, the guarantees and decision 23.

Each breaks one sentence about rows that are kept. That a changed constant is a conflict, the unit tests of fingerprints
see (`test_edits_change_the_fingerprint_only_if_they_change_behaviour`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from scaler.actors.jobs.job import JobActor
from scaler.actors.jobs.job_state import POSITION_BITS, EndedLog
from scaler.jobs.record import JobRecord, RowResult
from scaler.jobs.values import PackedBlocks
from tests.simulation.mutants import Mutant

Patches = AbstractContextManager[Any]


def _every_second_group_is_not_synced() -> Patches:
    begin, commit = JobRecord.begin, JobRecord.commit
    calls = [0]

    def begin_or_go_on(self: JobRecord) -> None:
        if not self._connection.in_transaction:
            begin(self)

    def commit_some(self: JobRecord) -> None:
        calls[0] += 1
        if calls[0] % 2:
            commit(self)

    return patch.multiple(JobRecord, begin=begin_or_go_on, commit=commit_some)


def _the_last_row_of_a_range_is_not_kept() -> Patches:
    add = JobRecord.add_results

    def without_last(result: RowResult) -> RowResult:
        if result.n_rows < 2:
            return result
        rest, packed = result.n_rows - 1, PackedBlocks(result.frames[0], result.n_rows)
        return result._replace(n_rows=rest, frames=(packed.cut(0, rest) if rest > 1 else packed.one(0),))

    return patch.object(JobRecord, "add_results", lambda self, results: add(self, [without_last(r) for r in results]))


def _a_retry_does_not_reopen_failed_rows() -> Patches:
    return patch.object(JobRecord, "reopen_failed", lambda _self, _status=None: [])


def _a_retry_takes_a_row_that_is_done() -> Patches:
    reopen = JobRecord.reopen_failed

    def one_more(self: JobRecord, status: int | None = None) -> list[int]:
        rows = reopen(self, status)
        done = self._connection.execute("SELECT row FROM results WHERE count = 1 ORDER BY row LIMIT 1").fetchall()
        for (row,) in done if rows else ():
            self._connection.execute("DELETE FROM results WHERE row = ?", (row,))
            first = max(each for each in self.ranges if each <= row)
            self._ranges.count(first, -1, 0)
            rows.append(row)
        return rows

    return patch.object(JobRecord, "reopen_failed", one_more)


def _rows_are_not_marked() -> Patches:
    return patch.object(JobRecord, "mark", lambda *_: None)


def _rows_that_are_said_again_are_new() -> Patches:
    add = JobRecord.add_range

    def always_new(self: JobRecord, first: int, count: int, *rest: Any) -> int:
        add(self, first, count, *rest)
        return count

    return patch.object(JobRecord, "add_range", always_new)


def _a_job_that_was_left_waits_for_a_program() -> Patches:
    may = JobActor._may_submit
    return patch.object(
        JobActor, "_may_submit", lambda self: may(self) and (self._state.is_new or bool(self._requests._programs))
    )


def _a_position_counts_in_any_log() -> Patches:
    return patch.object(EndedLog, "place", lambda self, at: (self._number << POSITION_BITS) + at % 2**POSITION_BITS)


KEPT = ("kept",)

JOBS = (
    Mutant("unsynced", "a group is told before it is on disk", _every_second_group_is_not_synced, KEPT),
    Mutant("kept-last", "the last row of a range is not kept", _the_last_row_of_a_range_is_not_kept, KEPT),
    Mutant("kept-failed", "a retry does not reopen rows that have failed", _a_retry_does_not_reopen_failed_rows, KEPT),
    Mutant("kept-retry", "a retry takes a row that is done", _a_retry_takes_a_row_that_is_done, KEPT),
    Mutant("kept-marks", "rows with at_most_once are not marked on disk", _rows_are_not_marked, KEPT),
    Mutant("kept-again", "rows that are sent again are taken for new ones", _rows_that_are_said_again_are_new, KEPT),
    Mutant("kept-log", "a position in the log of another scheduler counts", _a_position_counts_in_any_log, KEPT),
    Mutant("kept-left", "after a restart a job waits for a program", _a_job_that_was_left_waits_for_a_program, KEPT),
)
