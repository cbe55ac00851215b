"""Runs: what a worker proxy knows of the runs at its worker, with or without a task, and the resources that they take.

Used by the worker proxy only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import TypeAlias

from scaler.actors.objects.located import local_bytes
from scaler.actors.policy import WORK_AHEAD_US, Needs
from scaler.ids import ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.accounts import NUMBER_BITS, NUMBER_MOST
from scaler.wire.messages.client import Task
from scaler.wire.messages.worker import RunResult, RunTask

RESULT_BYTES_MOST = 64 * 1024 * 1024
"""The most bytes of results that are kept per worker until their tasks arrive. Tasks of further results run again."""

Measured: TypeAlias = dict[ObjectId, tuple[int, int]]
"""For each function, the total duration of its runs in microseconds, and the number of its runs."""


class Allocations:
    """The runs that take resources, and how many times the balancer counts each run."""

    def __init__(self) -> None:
        self._counted: dict[TaskId, tuple[Needs, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._counted)

    def add(self, task_id: TaskId, needs: Needs, counted: int) -> None:
        """Add a run that takes resources. `counted`: how many times the balancer has counted the run."""
        before = self._counted[task_id][1] if task_id in self._counted else 0
        self._counted[task_id] = (needs, before + counted)

    def changes(
        self, runs: Mapping[TaskId, RunRecord], task_ids: Iterable[TaskId] | None = None
    ) -> tuple[tuple[Needs, int], ...]:
        """Make the balancer's counts agree with `runs`. `task_ids`: the tasks to compare; None: all.

        Return the change of the count for each set of needs whose count has changed.
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
            elif run.counted - run.released != before:
                counted[task_id] = needs, run.counted - run.released
                differences[needs] += counted[task_id][1] - before
        return tuple((needs, number) for needs, number in differences.items() if number)

    def counts(self) -> tuple[tuple[Needs, int], ...]:
        """Return the number of counted runs for each set of needs."""
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
        "connection_number",
        "counted",
        "expected_us",
        "is_held",
        "released",
        "released_us",
        "spec",
        "task",
        "was_adopted",
    )

    def __init__(
        self, task: ActorRef, spec: Task, attempt: int, expected_us: int, account: int, connection_number: int
    ) -> None:
        self.task = task
        self.spec = spec
        self.attempt = attempt
        self.account = account
        self.connection_number = connection_number
        """the number of the connection on which the `RunTask` of the run was last sent"""
        self.expected_us = expected_us
        """the microseconds of work that the balancer counts for the run until it ends"""
        self.counted = 1
        """the slots of the run (per row of a range): 1, plus 1 for each later attempt assigned before this run ends

        If later attempts were not counted, the balancer would assign the task here again at once, in a loop.
        """
        self.released = self.released_us = 0
        """the slots, and the expected work, that the run gives up while it is blocked; 0 while it is not blocked"""
        self.canceled = False
        """whether the worker was ordered to stop the run; the order is repeated when the agent reconnects"""
        self.is_held = False
        """whether the `RunTask` of the run is held until the start of the run has been recorded"""
        self.was_adopted = False
        """whether the agent had the run before the task arrived"""

    @property
    def load(self) -> tuple[int, int]:
        """The slots and the expected work that the run takes."""
        return (self.counted - self.released) * (self.spec.rows or 1), self.expected_us - self.released_us

    def block(self) -> tuple[int, int]:
        """Mark the run as blocked. Return the slots and the expected work that become free."""
        if self.released:
            return 0, 0
        freed = self.load
        self.released, self.released_us = self.counted, self.expected_us
        return freed

    def unblock(self) -> tuple[int, int]:
        """Mark the run as resumed. Return the slots and the expected work that the run takes again."""
        released = self.released * (self.spec.rows or 1), self.released_us
        self.released = self.released_us = 0
        return released


class Orphan:
    """A run that an agent had at its hello, and that no task has claimed."""

    __slots__ = ("attempt", "canceled", "expected_us", "is_blocked", "result")

    def __init__(self, attempt: int, expected_us: int) -> None:
        self.attempt = attempt
        self.expected_us = expected_us
        self.is_blocked = False
        self.canceled = False
        self.result: RunResult | None = None

    @property
    def load(self) -> tuple[int, int]:
        return (0, 0) if self.is_blocked or self.result is not None else (1, self.expected_us)

    def block(self) -> tuple[int, int]:
        """Mark the run as blocked. Return the slots and the expected work that become free."""
        freed, self.is_blocked = self.load, True
        return freed

    def unblock(self) -> tuple[int, int]:
        """Mark the run as resumed. Return the slots and the expected work that the run takes again."""
        before, self.is_blocked = self.load, False
        return (0, 0) if before[0] else self.load


class Orphans:
    """The orphaned runs of one worker, of unknown duration.

    The first run counts as enough work to keep further tasks away; later runs count as short, since they were queued.
    """

    def __init__(self, held: Iterable[tuple[TaskId, int]] = ()) -> None:
        self._runs: dict[TaskId, Orphan] = {}
        self._result_bytes = 0
        for task_id, attempt in held:
            self._runs[task_id] = Orphan(attempt, 0 if self._runs else WORK_AHEAD_US)
        self._without_result = len(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def are_running(self) -> bool:
        """Whether any orphaned run has no result yet."""
        return self._without_result > 0

    @property
    def load(self) -> tuple[int, int]:
        """The slots and the expected work that all orphaned runs take together."""
        loads = [orphan.load for orphan in self._runs.values()]
        return sum(places for places, _ in loads), sum(expected_us for _, expected_us in loads)

    def find(self, task_id: TaskId, attempt: int) -> Orphan | None:
        """Return a run that has no result yet; None if the run is unknown or has a result."""
        orphan = self._runs.get(task_id)
        return orphan if orphan is not None and orphan.attempt == attempt and orphan.result is None else None

    def finish(self, result: RunResult) -> tuple[int, int]:
        """Keep the result of a run until its task arrives. Return the slots and the expected work that become free."""
        orphan = self.find(result.task_id, result.attempt)
        if orphan is None:
            return 0, 0
        load = orphan.load
        self._without_result -= 1
        size = local_bytes(result.frames) + len(result.payload)
        if orphan.canceled or self._result_bytes + size > RESULT_BYTES_MOST:
            del self._runs[result.task_id]
        else:
            self._result_bytes += size
            orphan.result = result
        return load

    def claim(self, task_id: TaskId, attempt: int) -> Orphan | None:
        """Remove a run for its task and return the run; None if the run is unknown or was cancelled."""
        orphan = self._runs.get(task_id)
        if orphan is None or orphan.attempt != attempt or orphan.canceled:
            return None
        self._forget(task_id, orphan)
        return orphan

    def cancel(self, task_id: TaskId, attempt: int) -> bool:
        """Cancel a run that no task wants. Return whether the agent must be ordered to stop the run."""
        orphan = self._runs.get(task_id)
        if orphan is None or orphan.attempt != attempt:
            return False
        if orphan.result is not None:
            self._forget(task_id, orphan)
            return False
        orphan.canceled = True
        return True

    def drop(self, attempt: int, kept: Container[TaskId]) -> tuple[int, int]:
        """Forget the rows of a range, except those in `kept`. Return the slots and the work that become free."""
        places = expected_us = 0
        for task_id, orphan in list(self._runs.items()):
            if orphan.result is None and orphan.attempt == attempt and task_id not in kept:
                places += orphan.load[0]
                expected_us += orphan.load[1]
                self._forget(task_id, orphan)
        return places, expected_us

    def keep_only(self, held: dict[TaskId, int]) -> tuple[int, int]:
        """Forget runs that the agent no longer has. Return the slots and the expected work that become free."""
        places = expected_us = 0
        for task_id, orphan in list(self._runs.items()):
            if orphan.result is None and held.get(task_id) != orphan.attempt:
                places += orphan.load[0]
                expected_us += orphan.load[1]
                self._forget(task_id, orphan)
        return places, expected_us

    def check(self) -> None:
        """Assert that the counts agree with the runs."""
        results = [orphan.result for orphan in self._runs.values() if orphan.result is not None]
        assert self._without_result == len(self._runs) - len(results)
        assert self._result_bytes == sum(local_bytes(each.frames) + len(each.payload) for each in results)
        assert self._result_bytes <= RESULT_BYTES_MOST

    def _forget(self, task_id: TaskId, orphan: Orphan) -> None:
        del self._runs[task_id]
        if orphan.result is None:
            self._without_result -= 1
        else:
            self._result_bytes -= local_bytes(orphan.result.frames) + len(orphan.result.payload)


def add_measured(measured: Measured, function_id: ObjectId | None, duration_us: int, count: int) -> None:
    """Add the total duration of `count` runs of one function to the measured durations."""
    if function_id is not None and count:
        total_us, number = measured.get(function_id, (0, 0))
        measured[function_id] = (total_us + duration_us, number + count)


def order_of(spec: Task, worker: int, attempt: int, account: int) -> RunTask:
    """Return the `RunTask` for an attempt of a task at a worker."""
    return RunTask(
        spec.task_id,
        worker,
        attempt,
        spec.function_id,
        spec.payload,
        spec.object_ids,
        spec.priority,
        "" if spec.named_by_key else spec.name,
        spec.options,
        account & NUMBER_MOST,
        spec.frames,
        spec.rows,
        account >> NUMBER_BITS,
    )
