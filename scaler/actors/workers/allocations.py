"""Allocations: what the runs of one worker take of its node beside their places, as the balancer counts it.

Used by the worker proxy only; empty unless tasks ask for something. A run takes what it asks for as often as it
occupies a place: from its assignment to its end, and not while it waits for other tasks. Must never: send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from scaler.actors.policy import Needs
from scaler.actors.workers.runs import RunRecord
from scaler.ids import TaskId


class Allocations:
    """Runs that take something, and how often the balancer counts each."""

    def __init__(self) -> None:
        self._counted: dict[TaskId, tuple[Needs, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._counted)

    def add(self, task_id: TaskId, needs: Needs, counted: int) -> None:
        """A run takes something, and the balancer has counted it so often already."""
        before = self._counted[task_id][1] if task_id in self._counted else 0
        self._counted[task_id] = (needs, before + counted)

    def changes(
        self, runs: Mapping[TaskId, RunRecord], task_ids: Iterable[TaskId] | None = None
    ) -> tuple[tuple[Needs, int], ...]:
        """Return by how much the balancer's counts differ from what these runs take now, and take them for told.

        Args:
            task_ids: those that may have changed; None: all.
        """
        differences: Counter[Needs] = Counter()
        counted = self._counted
        for task_id in list(counted if task_ids is None else task_ids):
            if task_id not in counted:
                continue
            needs, before = counted[task_id]
            run = runs.get(task_id)
            if run is None:
                del counted[task_id]
                differences[needs] -= before
            elif run.counted - run.lent != before:
                counted[task_id] = needs, run.counted - run.lent
                differences[needs] += counted[task_id][1] - before
        return tuple((needs, number) for needs, number in differences.items() if number)

    def counts(self) -> tuple[tuple[Needs, int], ...]:
        """Return how many runs take what now."""
        counts: Counter[Needs] = Counter()
        for needs, number in self._counted.values():
            counts[needs] += number
        return tuple((needs, number) for needs, number in counts.items() if number)
