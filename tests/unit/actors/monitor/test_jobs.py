"""The topic `jobs`: the progress of each job, and the errors of its first failed rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from scaler.actors.monitor.jobs import ShownJobs
from scaler.ids import public_id
from scaler.jobs.record import JobSummary, JobTerms, RowResult
from scaler.jobs.terms import LiveCounts
from scaler.wire.messages.common import TaskStatus
from tests.support.monitored import decoded

TERMS = JobTerms("prices", "alice", b"12345678", b"f" * 16, "price", "prices.py", created=1.5)
PLACE = Path("prices")


class Board:
    """The part of a board that reads failures."""

    def __init__(self) -> None:
        self.n_read = 0

    def read_failure(self, payload: bytes) -> str:
        self.n_read += 1
        return payload.decode()


def summary(**fields: Any) -> JobSummary:
    return replace(JobSummary(TERMS, "open", "", True, 9, 3, 1, 77, 2.5), **fields)


def failure(row: int, payload: bytes = b"ValueError: bad strike", status: int = TaskStatus.FAILED) -> RowResult:
    return RowResult(row, status, (payload,))


def test_counts_are_those_of_the_moment_although_the_summary_is_older() -> None:
    live = LiveCounts()
    jobs = ShownJobs(cast("Any", Board()), {PLACE: summary(live=live)})
    live.handed_out, live.running = 5, 2
    (item,), total = jobs.items()
    assert total == 1
    assert (item.job, item.function_name, item.rows, item.done, item.failed) == (
        public_id(b"12345678"),
        "price",
        9,
        3,
        1,
    )
    assert (item.handed_out, item.running) == (5, 2)


def test_failures_are_read_once_and_again_when_they_change() -> None:
    board, seen = Board(), {PLACE: summary(failures=(failure(3), failure(5, b"gone", TaskStatus.WORKER_DIED)))}
    jobs = ShownJobs(cast("Any", board), seen)
    for _ in range(3):
        (item,), _ = jobs.items()
    assert item.failures == "row 3: ValueError: bad strike\nrow 5: gone"
    assert board.n_read == 1
    seen[PLACE] = summary(failures=(failure(1), *seen[PLACE].failures))
    (item,), _ = jobs.items()
    assert item.failures.startswith("row 1: ")
    seen[PLACE] = summary()
    assert jobs.items()[0][0].failures == ""


def test_the_lines_of_twenty_failed_rows_fit_into_the_text_of_an_item() -> None:
    failures = tuple(failure(10**9 + number, b"x" * 1000) for number in range(20))
    jobs = ShownJobs(cast("Any", Board()), {PLACE: summary(failures=failures)})
    items, _ = jobs.items()
    (item,) = decoded(*items)
    assert [int(line.split()[1][:-1]) - 10**9 for line in item.failures.splitlines()] == list(range(20))
