"""Answers: reports runs to the link that do not end by a result of their own.

Used by the workers of all executors, and sends to the link.

Must never: answer a run twice, or one that goes on; the caller must ensure that.
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

# Made once: these are on the way of each task that waits, and `Batch[...]` is a call.
_BLOCKED, _UNBLOCKED, _OUTPUT = Batch[RunBlocked], Batch[RunUnblocked], Batch[RunOutput]


class End(NamedTuple):
    """The answer for a run without a result of its own."""

    status: TaskStatus
    text: str = ""


class Answers:
    """The answers of one worker."""

    def __init__(self, link: ActorRef) -> None:
        self._link = link

    def end(self, tasks: Iterable[RunTask], end: End, where: bytes = b"", profile: bytes = b"") -> None:
        """These runs have ended; `where` is their traceback, if there is one."""
        text = end.text.encode() + (b"\n" + where if end.text and where else b"")
        results = Batch[RunResult](
            RunResult(task.task_id, task.worker, task.attempt, end.status, text, 0, (), profile, rows=task.rows)
            for task in tasks
        )
        if results:
            self._link.send(results)

    def given_back(self, tasks: Iterable[RunTask]) -> None:
        """These runs go back to the scheduler."""
        given = Batch[RecallResponse](
            RecallResponse(task.task_id, task.worker, task.attempt, task.rows) for task in tasks
        )
        if given:
            self._link.send(given)

    def not_here(self, wanted: Iterable[RunCancel | RecallRequest], here: Collection[RunKey]) -> None:
        """Let the link answer for the other runs, if it has them as open. Usually their results were quicker."""
        others = [item for item in wanted if run_of(item) not in here]
        if others:
            self._link.send(RunsNotHere(others))

    def blocked(self, task: RunTask) -> None:
        """This run waits for other tasks: its slot is free."""
        self._link.send(_BLOCKED([RunBlocked(task.task_id, task.worker, task.attempt)]))

    def unblocked(self, task: RunTask) -> None:
        """This run continues: it occupies a slot again."""
        self._link.send(_UNBLOCKED([RunUnblocked(task.task_id, task.worker, task.attempt)]))

    def lines(self, lines: Iterable[tuple[TaskOutput, RunTask | None]]) -> None:
        """These tasks have written lines; None: it has its result already."""
        batch = _OUTPUT(
            RunOutput(task.task_id, task.worker, task.attempt, line.stream, line.time_us, line.dropped, line.text)
            for line, task in lines
            if task is not None
        )
        if batch:
            self._link.send(batch)
