"""Ranges: how a worker proxy splits a range into one run for each of its rows, and checks the results of ranges.

Used by the worker proxy only. It sends nothing.
"""

from __future__ import annotations

from scaler.actors.messages.tasks import TaskSplit
from scaler.actors.workers.runs import RunRecord
from scaler.ids import TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import RowsError, calls_of, results_of
from scaler.wire.messages.worker import RunResult

_STATUSES = frozenset(map(int, TaskStatus))


def split(runs: dict[TaskId, RunRecord], run: RunRecord, worker: ActorRef) -> tuple[list[RunRecord], TaskSplit | None]:
    """Replace a range in `runs` by its rows. Return the rows, and a message to the task (None: the client has left)."""
    spec = run.spec
    tasks = run.context.split(spec, (worker, run.attempt)) if run.context is not None else ()
    if not tasks:
        del runs[spec.task_id]
        return [], None
    count = len(tasks)
    each_us, left_us = divmod(run.expected_us, count)
    rows = []
    for task, row in zip(tasks, calls_of(spec), strict=True):
        record = RunRecord(task, row, run.attempt, each_us + left_us, run.account, run.connection_number)
        left_us = 0
        record.canceled, record.counted = run.canceled, run.counted
        rows.append(record)
    _put(runs, run, rows)
    return rows, TaskSplit(run.attempt, tasks)


def _put(runs: dict[TaskId, RunRecord], run: RunRecord, rows: list[RunRecord]) -> None:
    before = list(runs.items())
    runs.clear()
    for task_id, each in before:
        if each is run:
            runs.update((row.spec.task_id, row) for row in rows)
        else:
            runs[task_id] = each


def unwanted(run: RunRecord) -> RunResult:
    """Return the result that ends a range whose client has left."""
    return RunResult(run.spec.task_id, 0, run.attempt, TaskStatus.CANCELED, b"", 0, (), rows=run.spec.rows)


def checked(rows: int, result: RunResult) -> RunResult:
    """Return the result of a run, or a failure if the result does not have `rows` rows and known statuses."""
    n_statuses, are_known = len(result.statuses), _STATUSES.issuperset(result.statuses)
    if result.rows == rows and n_statuses in (0, rows) and are_known:
        return result
    what = f"{n_statuses:,} statuses" if are_known else "unknown statuses"
    text = f"its worker sent {result.rows:,} results and {what} for {rows:,} rows".encode()
    status = TaskStatus.INTERNAL_ERROR
    return RunResult(result.task_id, result.worker, result.attempt, status, text, 0, (), rows=rows)


def retried(run: RunRecord, result: RunResult) -> list[RunResult]:
    """Return the results of the rows of a range if some rows may be retried, else an empty list."""
    if not (result.statuses and run.spec.options):
        return []
    try:
        return results_of(result)
    except RowsError:
        return []  # its client will say so
