"""Submitted rows: how many rows of a job travel as one task, their tasks, and the results of these tasks by row.

Used by the job. Like in maps, a row of unknown duration travels alone, and later rows travel in ranges of some
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy

from scaler.actors.jobs.job_state import NextRows
from scaler.actors.messages.tasks import ReturnedRows
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.tasks.task import TaskActor
from scaler.durations import moving_mean
from scaler.ids import ObjectId, TaskId, index_of
from scaler.jobs.record import JobRecord, JobTerms, RowResult
from scaler.jobs.values import RowArguments
from scaler.kit import ActorRef
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, results_of, rows_together


class RowSizes:
    """Measures how long rows take, to choose the size of ranges.

    Args:
        most: the most rows in a range; 1: rows travel alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mean_us: float | None = None

    def learn(self, rows: int, total_us: int) -> None:
        """Update the mean duration: `rows` rows took `total_us`."""
        self._mean_us = moving_mean(self._mean_us, total_us, rows)

    @property
    def is_known(self) -> bool:
        """Whether any row has ended, so that the mean duration is known."""
        return self._mean_us is not None

    def size(self, n_open: int) -> int:
        """Return how many of the open rows are to travel together now."""
        if self._most <= 1 or self._mean_us is None:
            return 1
        return rows_together(self._most, self._mean_us, n_open)


class SubmittedRows:
    """Makes the tasks of rows.

    Args:
        spawn: starts the actor of a task.
        tasks: the open tasks by row; a range by its first row.
        options_resubmitted: the options of a row that was submitted before, and must not start twice.
    """

    def __init__(
        self,
        spawn: Callable[[TaskActor], ActorRef],
        context: ClientContext,
        tasks: OpenTasks[int],
        options_resubmitted: bytes,
        record: JobRecord,
    ) -> None:
        self._spawn, self._context, self._tasks, self._options_resubmitted = spawn, context, tasks, options_resubmitted
        self.marks = set(record.marked)
        """rows that may have begun, for `at_most_once`"""
        self._context_reopened = copy(context)
        self._context_reopened.adoption = None
        self.reopened = set(record.reopened)
        """failed rows that run again; their runs are not adopted, since agents may have only the failed runs"""

    def submit(self, terms: JobTerms, rows: NextRows) -> None:
        """Make the task of a row, or of rows that travel together."""
        first, n_rows, context, options = rows.first, rows.n_rows, self._context, terms.options
        if n_rows > 1:
            call = RowArguments(rows.arguments.cut(rows.at, rows.at + n_rows))
        else:
            call = rows.arguments.one(rows.at)
            options = self._options_resubmitted if first in self.marks else options
            context = self._context_reopened if first in self.reopened else context
        task = Task(
            TaskId(terms.prefix + first.to_bytes(8, "big")), ObjectId(terms.function_id), call.payload, call.object_ids,
            terms.priority, terms.task_name, options, 0, call.frames, n_rows if n_rows > 1 else 0,
        )  # fmt: skip
        self._tasks.add(first, self._spawn(TaskActor(task, context)), n_rows)

    def have_ended(self, results: Iterable[RowResult]) -> None:
        """Remove rows whose results are on disk from `marks` and `reopened`."""
        for each in results:
            self.marks.discard(each.row)
            if self.reopened:
                self.reopened.difference_update(range(each.row, each.row + each.n_rows))

    def open(self, returned: ReturnedRows, context: ClientContext) -> None:
        """Make the task of rows of a range that has ended early."""
        spec = returned.spec
        self._tasks.add(index_of(spec.task_id), self._spawn(TaskActor.of_returned(returned, context)), spec.rows)


def pieces_of(result: TaskResult) -> list[RowResult]:
    """Return how the rows of a range have ended: consecutive done rows together, each failed row alone."""
    first = index_of(result.task_id)
    if result.rows > 1 and result.status == TaskStatus.SUCCESS and not any(result.statuses):
        return [RowResult(first, TaskStatus.SUCCESS, (result.payload,), result.rows, result.duration_us)]
    pieces: list[RowResult] = []
    succeeded: list[TaskResult] = []
    for row, each in enumerate(results_of(result), first):
        if each.status == TaskStatus.SUCCESS:
            succeeded.append(each)
            continue
        pieces += _together(row, succeeded)
        pieces.append(RowResult(row, each.status, (each.payload,), 1, each.duration_us))
        succeeded = []
    return [*pieces, *_together(first + (result.rows or 1), succeeded)]


def _together(end: int, succeeded: list[TaskResult]) -> list[RowResult]:
    blocks, n_rows = [each.payload for each in succeeded], len(succeeded)
    frames = (pack(blocks),) if n_rows > 1 else tuple(blocks)
    duration_us = sum(each.duration_us for each in succeeded)
    return [RowResult(end - n_rows, TaskStatus.SUCCESS, frames, n_rows, duration_us)] if succeeded else []
