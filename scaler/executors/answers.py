"""Answers: the reports of all executors about runs, except results of functions.

The caller ensures that the end of a run is reported once, and only after the run has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from scaler.executors.messages import RunsNotHere
from scaler.executors.task_queue import RunKey, run_of
from scaler.kit import ActorRef
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.processor import TaskOutput
from scaler.wire.messages.worker import (
    RecallRequest,
    RecallResponse,
    RunBlocked,
    RunCancel,
    RunOutput,
    RunResult,
    RunTask,
    RunUnblocked,
)

# Made once: each task that waits needs these, and `Batch[...]` is a call.
_BLOCKED, _UNBLOCKED, _OUTPUT, _RESULTS = Batch[RunBlocked], Batch[RunUnblocked], Batch[RunOutput], Batch[RunResult]


class End(NamedTuple):
    """The status and error text of a run that ended without a result of its function."""

    status: TaskStatus
    text: str = ""


def ended(task: RunTask, end: End, where: bytes = b"", profile: bytes = b"") -> RunResult:
    """Return the result of a run that has ended; `where` is the traceback of the run, if any."""
    text = end.text.encode() + (b"\n" + where if end.text and where else b"")
    return RunResult(task.task_id, task.worker, task.attempt, end.status, text, 0, (), profile, rows=task.rows)


class Answers:
    """Reports the runs of one worker to the link."""

    def __init__(self, link: ActorRef) -> None:
        self._link = link

    def end(self, tasks: Iterable[RunTask], end: End) -> None:
        """Report that these runs have ended."""
        results = _RESULTS(ended(task, end) for task in tasks)
        if results:
            self._link.send(results)

    def end_range(self, task: RunTask, running: int) -> None:
        """Report that a range has ended early. Row number `running` goes on alone; no other row has ended."""
        run = task.task_id, task.worker, task.attempt
        self._link.send(_RESULTS([RunResult(*run, TaskStatus.SUCCESS, b"", 0, (), running=running + 1)]))

    def recalled(self, tasks: Iterable[RunTask]) -> None:
        """Return these runs to the scheduler."""
        given = Batch[RecallResponse](
            RecallResponse(task.task_id, task.worker, task.attempt, task.rows) for task in tasks
        )
        if given:
            self._link.send(given)

    def report_missing(self, wanted: Iterable[RunCancel | RecallRequest], known: Collection[RunKey]) -> None:
        """Report which of the runs in `wanted` are not in `known`. Usually such a run has just sent its result."""
        missing = [item for item in wanted if run_of(item) not in known]
        if missing:
            self._link.send(RunsNotHere(missing))

    def blocked(self, task: RunTask) -> None:
        """Report that this run waits for other tasks and has given up its slot."""
        self._link.send(_BLOCKED([RunBlocked(task.task_id, task.worker, task.attempt)]))

    def unblocked(self, task: RunTask) -> None:
        """Report that this run continues and occupies a slot again."""
        self._link.send(_UNBLOCKED([RunUnblocked(task.task_id, task.worker, task.attempt)]))

    def lines(self, lines: Iterable[tuple[TaskOutput, tuple[RunTask, int] | None]]) -> None:
        """Report printed lines, each with its task and row. A line with None is dropped: its task has ended."""
        batch = _OUTPUT(
            RunOutput(task.task_id, task.worker, task.attempt, line.stream, line.time_us, line.dropped, line.text, row)
            for line, (task, row) in ((line, found) for line, found in lines if found is not None)
        )
        if batch:
            self._link.send(batch)
