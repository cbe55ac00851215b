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
_BLOCKED, _UNBLOCKED, _OUTPUT = Batch[RunBlocked], Batch[RunUnblocked], Batch[RunOutput]


class End(NamedTuple):
    """The status and error text of a run that ended without a result of its function."""

    status: TaskStatus
    text: str = ""


class Answers:
    """Reports the runs of one worker to the link."""

    def __init__(self, link: ActorRef) -> None:
        self._link = link

    def end(self, tasks: Iterable[RunTask], end: End, where: bytes = b"", profile: bytes = b"") -> None:
        """Report that these runs have ended; `where` is the traceback of the runs, if any."""
        text = end.text.encode() + (b"\n" + where if end.text and where else b"")
        results = Batch[RunResult](
            RunResult(task.task_id, task.worker, task.attempt, end.status, text, 0, (), profile, rows=task.rows)
            for task in tasks
        )
        if results:
            self._link.send(results)

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

    def lines(self, lines: Iterable[tuple[TaskOutput, RunTask | None]]) -> None:
        """Report printed lines. A line with None in place of its task is dropped: the task has a result already."""
        batch = _OUTPUT(
            RunOutput(task.task_id, task.worker, task.attempt, line.stream, line.time_us, line.dropped, line.text)
            for line, task in lines
            if task is not None
        )
        if batch:
            self._link.send(batch)
