"""Tally: counts the runs of an agent that end while somebody watches, by worker and function.

Filled by the ledger, one call for each run that ends, and emptied by each report (`watch.py`). While nobody watches
there is no tally. Must never: keep a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from scaler.ids import ObjectId
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask

BUCKETS = 32
"""Number n counts the runs of less than 2**n microseconds that are in none before."""

_US, _FIRST_BUCKET = 4, 5
_OUTCOMES = tuple(
    {TaskStatus.SUCCESS: 0, TaskStatus.FAILED: 1, TaskStatus.CANCELED: 2}.get(status, 3) for status in TaskStatus
)
"""status, as its number -> place of its count: success, failed, canceled, other"""


class Bin(NamedTuple):
    """What a worker did."""

    busy_us: int
    outcomes: tuple[int, int, int, int]
    main_function: ObjectId


class Tally:
    """The runs that ended since the last report."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, ObjectId], list[int]] = {}
        """by worker and function: four counts, microseconds, buckets"""
        self.ended: Counter[int] = Counter()
        """how many runs of each worker have ended since the first report; those after the last one are not in it"""

    def add(self, task: RunTask, result: RunResult) -> None:
        """Count a run that has ended."""
        key = (task.worker, task.function_id)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = [0] * (_FIRST_BUCKET + BUCKETS)
        status = result.status
        entry[_OUTCOMES[status]] += 1
        if status <= TaskStatus.FAILED:  # others were not measured
            duration_us = result.duration_us
            entry[_US] += duration_us
            entry[_FIRST_BUCKET + min(duration_us.bit_length(), BUCKETS - 1)] += 1

    def take(self) -> tuple[dict[int, Bin], dict[ObjectId, list[int]]]:
        """Take what was counted: by worker, and by function: four outcomes, microseconds, and the buckets."""
        entries, self._entries = self._entries, {}
        by_worker: dict[int, dict[ObjectId, list[int]]] = {}
        functions: dict[ObjectId, list[int]] = {}
        for (worker, function_id), counts in entries.items():
            by_worker.setdefault(worker, {})[function_id] = counts
            known = functions.get(function_id)
            functions[function_id] = counts if known is None else list(map(int.__add__, known, counts))
        for worker, entry in by_worker.items():
            self.ended[worker] += sum(sum(counts[:_US]) for counts in entry.values())
        return {worker: _bin(entry) for worker, entry in by_worker.items()}, functions


def _bin(entry: dict[ObjectId, list[int]]) -> Bin:
    a, b, c, d = (_sum(entry.values(), place) for place in range(_US))
    return Bin(_sum(entry.values(), _US), (a, b, c, d), max(entry, key=lambda function_id: entry[function_id][_US]))


def _sum(rows: Iterable[list[int]], place: int) -> int:
    return sum(row[place] for row in rows)
