"""Runs: what a worker proxy knows of the runs at its worker: those of tasks, and those whose task has not come yet,
and the resources that they occupy.

Used by the worker proxy only. Must never: send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from scaler.actors.objects.located import bytes_here
from scaler.actors.policy import WORK_AHEAD_US, Needs
from scaler.ids import ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.accounts import NUMBER_BITS, NUMBER_MOST
from scaler.wire.messages.client import Task
from scaler.wire.messages.worker import RunResult, RunTask

RESULT_BYTES_MOST = 64 * 1024 * 1024
"""The most bytes of results of a worker that are kept until their tasks come. The tasks of others run again."""

Measured: TypeAlias = dict[ObjectId, tuple[int, int]]
"""Function -> how long its runs took in microseconds, and how many there were."""


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


class RunRecord:
    """One attempt of a task at this worker."""

    __slots__ = (
        "account",
        "attempt",
        "canceled",
        "context",
        "counted",
        "expected_us",
        "is_held",
        "lent",
        "lent_us",
        "spec",
        "task",
        "visit",
        "was_adopted",
    )

    def __init__(self, task: ActorRef, spec: Task, attempt: int, expected_us: int, account: int, visit: int) -> None:
        self.task = task
        self.spec = spec
        self.attempt = attempt
        self.account = account
        self.visit = visit
        """the number of the connection on which its order was said last"""
        self.expected_us = expected_us
        """the expected work that the balancer counts for it until it ends"""
        self.counted = 1
        """how often it occupies a place, or one for each row: 1, plus 1 for each later attempt assigned here before
        this one ended. Otherwise the balancer would send the task here again at once, for ever"""
        self.lent = self.lent_us = 0
        """the work that it counted for when it began to wait for other tasks: free for others until it continues"""
        self.canceled = False
        """the worker was told to stop it; repeated when the agent comes back, because the order may be lost"""
        self.context: Any = None
        """of a range: the context of its task, to split it"""
        self.is_held = False
        """the agent does not have the order: that it may begin is being noted"""
        self.was_adopted = False
        """its agent had it already when it came"""

    @property
    def load(self) -> tuple[int, int]:
        """Places and work that it takes."""
        return (self.counted - self.lent) * (self.spec.rows or 1), self.expected_us - self.lent_us

    def lend(self) -> tuple[int, int]:
        """It waits for other tasks. Return places and work that are free now."""
        if self.lent:
            return 0, 0
        freed = self.load
        self.lent, self.lent_us = self.counted, self.expected_us
        return freed

    def take_back(self) -> tuple[int, int]:
        """It continues. Return places and work that were free meanwhile."""
        lent = self.lent * (self.spec.rows or 1), self.lent_us
        self.lent = self.lent_us = 0
        return lent


class Orphan:
    """A run that an agent had when it came, and whose task has not claimed it."""

    __slots__ = ("attempt", "canceled", "expected_us", "is_blocked", "result")

    def __init__(self, attempt: int, expected_us: int) -> None:
        self.attempt = attempt
        self.expected_us = expected_us
        self.is_blocked = False
        self.canceled = False
        self.result: RunResult | None = None

    @property
    def load(self) -> tuple[int, int]:
        """Places and work that it takes."""
        return (0, 0) if self.is_blocked or self.result is not None else (1, self.expected_us)

    def lend(self) -> tuple[int, int]:
        """It waits for other tasks. Return places and work that are free now."""
        freed, self.is_blocked = self.load, True
        return freed

    def take_back(self) -> tuple[int, int]:
        """It continues. Return places and work that were free meanwhile."""
        before, self.is_blocked = self.load, False
        return (0, 0) if before[0] else self.load


class Orphans:
    """The runs of one worker that no task has claimed yet.

    How long they take is unknown. The worker gets nothing behind the first one; the others were put behind it because
    they are short.

    Args:
        held: task and attempt of each.
    """

    def __init__(self, held: Iterable[tuple[TaskId, int]]) -> None:
        self._runs: dict[TaskId, Orphan] = {}
        self._result_bytes = 0
        for task_id, attempt in held:
            self._runs[task_id] = Orphan(attempt, 0 if self._runs else WORK_AHEAD_US)
        self._without_result = len(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def are_running(self) -> bool:
        """Whether any of them has no result yet."""
        return self._without_result > 0

    @property
    def load(self) -> tuple[int, int]:
        """Places and work that all take."""
        loads = [orphan.load for orphan in self._runs.values()]
        return sum(places for places, _ in loads), sum(expected_us for _, expected_us in loads)

    def find(self, task_id: TaskId, attempt: int) -> Orphan | None:
        """Return a run that has no result."""
        orphan = self._runs.get(task_id)
        return orphan if orphan is not None and orphan.attempt == attempt and orphan.result is None else None

    def finish(self, result: RunResult) -> tuple[int, int]:
        """A run has ended. Return places and work that are free now."""
        orphan = self.find(result.task_id, result.attempt)
        if orphan is None:
            return 0, 0
        load = orphan.load
        self._without_result -= 1
        size = bytes_here(result.frames) + len(result.payload)
        if orphan.canceled or self._result_bytes + size > RESULT_BYTES_MOST:
            del self._runs[result.task_id]
        else:
            self._result_bytes += size
            orphan.result = result
        return load

    def claim(self, task_id: TaskId, attempt: int) -> Orphan | None:
        """Take a run out for its task. None if it is not here, or was cancelled."""
        orphan = self._runs.get(task_id)
        if orphan is None or orphan.attempt != attempt or orphan.canceled:
            return None
        self._forget(task_id, orphan)
        return orphan

    def cancel(self, task_id: TaskId, attempt: int) -> bool:
        """No task wants a run. Return whether the agent must be told to stop it."""
        orphan = self._runs.get(task_id)
        if orphan is None or orphan.attempt != attempt:
            return False
        if orphan.result is not None:
            self._forget(task_id, orphan)
            return False
        orphan.canceled = True
        return True

    def keep_only(self, held: dict[TaskId, int]) -> tuple[int, int]:
        """Forget runs that the agent does not have any more. Return places and work that are free now."""
        places = expected_us = 0
        for task_id, orphan in list(self._runs.items()):
            if orphan.result is None and held.get(task_id) != orphan.attempt:
                places += orphan.load[0]
                expected_us += orphan.load[1]
                self._forget(task_id, orphan)
        return places, expected_us

    def _forget(self, task_id: TaskId, orphan: Orphan) -> None:
        del self._runs[task_id]
        if orphan.result is None:
            self._without_result -= 1
        else:
            self._result_bytes -= bytes_here(orphan.result.frames) + len(orphan.result.payload)


def add_measured(measured: Measured, function_id: ObjectId | None, duration_us: int, count: int) -> None:
    """Count a row of runs of one function."""
    if function_id is not None:
        total_us, number = measured.get(function_id, (0, 0))
        measured[function_id] = (total_us + duration_us, number + count)


def order_of(spec: Task, worker: int, attempt: int, account: int) -> RunTask:
    """Return the order to run an attempt of a task at a worker."""
    return RunTask(
        spec.task_id,
        worker,
        attempt,
        spec.function_id,
        spec.payload,
        spec.object_ids,
        spec.priority,
        spec.name,
        spec.options,
        account & NUMBER_MOST,
        spec.frames,
        spec.rows,
        account >> NUMBER_BITS,
    )
