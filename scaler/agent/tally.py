"""Tally: counts the runs of an agent by worker and function, and measures how long workers are busy.

Exists while the scheduler requests reports of the agent. The ledger adds each run that ends; each report empties the
tally (`watch.py`). Busy time includes open runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask

BUCKETS = 32
"""The number of buckets of a histogram. Bucket n counts the runs from 2**(n-1) to below 2**n microseconds."""

_US, _LEAST, _MOST, _FIRST_BUCKET = 4, 5, 6, 7
Runs: TypeAlias = list[int]
"""Figures of measured runs: the total, the shortest and the longest duration in microseconds, and the histogram."""

LEAST_OF_NONE = 2**32 - 1
"""The shortest duration of no runs."""

NO_RUNS = (0, LEAST_OF_NONE, *[0] * (1 + BUCKETS))
_OUTCOMES = tuple(
    {TaskStatus.SUCCESS: 0, TaskStatus.FAILED: 1, TaskStatus.CANCELED: 2}.get(status, 3) for status in TaskStatus
)
"""For each `TaskStatus`, by its number: the index of its count. The counts are success, failed, canceled and other."""


class Bin(NamedTuple):
    """Figures of one worker since the last report: busy time, runs by outcome, the function that took the most time."""

    busy_us: int
    outcomes: tuple[int, int, int, int]
    main_function: ObjectId


class Tally:
    """Counts the runs that have ended since the last report."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, ObjectId], list[int]] = {}
        """by worker and function: four counts by outcome, and the measured runs"""
        self.ended: Counter[int] = Counter()
        """how many runs of each worker have ended, up to the last report"""
        self._reported: dict[tuple[TaskId, int], int] = {}
        """by run that was running at the last report: the microseconds that were reported"""
        self._reported_of_ended: Counter[int] = Counter()
        """by worker: the microseconds of runs that were reported while they ran, if these runs have ended since"""

    def add(self, task: RunTask, result: RunResult) -> None:
        """Count a run that has ended."""
        key = (task.worker, task.function_id)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = [0, 0, 0, 0, *NO_RUNS]
        status, rows = result.status, result.rows if result.running else task.rows or 1
        if not rows:
            return
        entry[_OUTCOMES[status]] += rows
        for other in result.statuses.replace(b"\0", b"") if result.statuses else b"":
            entry[_OUTCOMES[status]] -= 1
            entry[_OUTCOMES[other]] += 1
        if status <= TaskStatus.FAILED:  # other ends were not measured
            duration_us = result.duration_us
            each_us = duration_us // rows
            entry[_US] += duration_us
            entry[_LEAST], entry[_MOST] = min(entry[_LEAST], each_us), max(entry[_MOST], each_us)
            entry[_FIRST_BUCKET + min(each_us.bit_length(), BUCKETS - 1)] += rows
            if self._reported:
                self._reported_of_ended[task.worker] += self._reported.pop((task.task_id, task.attempt), 0)

    def take(self, running: Iterable[tuple[RunTask, int]] = ()) -> tuple[dict[int, Bin], dict[ObjectId, Runs]]:
        """Remove and return the figures of each worker, and the measured runs of each function.

        `running` has the open runs, each with the microseconds that it has run so far.
        """
        entries, self._entries = self._entries, {}
        by_worker: dict[int, dict[ObjectId, list[int]]] = {}
        functions: dict[ObjectId, Runs] = {}
        for (worker, function_id), counts in entries.items():
            by_worker.setdefault(worker, {})[function_id] = counts
            known = functions.get(function_id)
            functions[function_id] = counts[_US:] if known is None else merged(known, counts[_US:])
        for worker, entry in by_worker.items():
            self.ended[worker] += sum(sum(counts[:_US]) for counts in entry.values())
        bins = {worker: _bin(entry) for worker, entry in by_worker.items()}
        self._report_running(bins, running)
        return bins, functions

    def _report_running(self, bins: dict[int, Bin], running: Iterable[tuple[RunTask, int]]) -> None:
        """Add to `bins` the time of open runs since the last report; subtract the reported time of runs ended since."""
        reported, self._reported = self._reported, {}
        reported_of_ended, self._reported_of_ended = self._reported_of_ended, Counter()
        for worker, reported_us in reported_of_ended.items():
            bins[worker] = bins[worker]._replace(busy_us=max(0, bins[worker].busy_us - reported_us))
        for task, ran_us in running:
            run = task.task_id, task.attempt
            self._reported[run] = ran_us
            known = bins.get(task.worker, Bin(0, (0, 0, 0, 0), task.function_id))
            bins[task.worker] = known._replace(busy_us=known.busy_us + max(0, ran_us - reported.get(run, 0)))


def merged(one: Runs, other: Runs) -> Runs:
    """Return the figures of the runs of both."""
    sums = list(map(int.__add__, one, other))
    sums[1], sums[2] = min(one[1], other[1]), max(one[2], other[2])
    return sums


def _bin(entry: dict[ObjectId, list[int]]) -> Bin:
    a, b, c, d = (_sum(entry.values(), place) for place in range(_US))
    return Bin(_sum(entry.values(), _US), (a, b, c, d), max(entry, key=lambda function_id: entry[function_id][_US]))


def _sum(rows: Iterable[list[int]], place: int) -> int:
    return sum(row[place] for row in rows)
