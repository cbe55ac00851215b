"""Run status: where runs are at their workers, for a client that asks why its task does not end.

Used by the link, which has asked the workers. Must never: keep anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler.agent.ledger import Ledger
from scaler.executors.view import View
from scaler.message import message
from scaler.wire.messages.common import Standing
from scaler.wire.messages.worker import RunQuestion, RunStanding

_UINT32_MOST = 2**32 - 1


@message
class RunStatusDue:
    """link -> itself: the workers have answered, or cannot say it: then there is no view."""

    questions: Iterable[RunQuestion]
    view: View | None


def run_statuses(questions: Iterable[RunQuestion], view: View | None, ledger: Ledger) -> Iterator[RunStanding]:
    """Yield where these runs are. Of one that has ended, the result is on its way.

    Args:
        view: what the workers execute; None: they cannot say it.
    """
    for question in questions:
        task = ledger.find(question.task_id, question.attempt)
        if task is None:
            continue
        if view is None:
            yield _answer(question, Standing.NOT_KNOWN)
        else:
            yield _found(question, task.worker, view)


def _found(question: RunQuestion, worker: int, view: View) -> RunStanding:
    first_seconds = 0.0
    for process in view.processes:
        task = process.task
        if task is None or process.worker != worker:
            continue
        if (task.task_id, task.attempt) == (question.task_id, question.attempt):
            standing = Standing.WAITS if process.is_waiting else Standing.RUNS
            return _answer(question, standing, process.ran_seconds, process.pid)
        if not process.is_waiting:
            first_seconds = max(first_seconds, process.ran_seconds)
    return _answer(question, Standing.QUEUED, first_seconds)


def _answer(question: RunQuestion, standing: Standing, ran_seconds: float = 0.0, pid: int = 0) -> RunStanding:
    milliseconds = min(_UINT32_MOST, max(0, int(ran_seconds * 1000)))
    return RunStanding(question.task_id, question.worker, question.attempt, standing, milliseconds, pid)
