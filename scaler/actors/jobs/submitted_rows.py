"""SubmittedRows: submits rows of a job as tasks.

Owned by the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy

from scaler.actors.jobs.open_rows import NextRows
from scaler.actors.messages.tasks import ReturnedRows
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.tasks.task import TaskActor
from scaler.ids import ObjectId, TaskId, index_of
from scaler.jobs.record import JobRecord, JobTerms, RowResult
from scaler.jobs.values import RowArguments
from scaler.kit import ActorRef
from scaler.wire.messages.client import Task


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
