"""EngineWorker: one worker of a foreign engine: a slot for one task at a time in the engine.

When the client of a task reports to the scheduler that the task waits, another task runs in the slot. With some
engines, a task may wait without such a report. With these engines, a task that is deeper than all running tasks of its
account starts at once, because the running tasks may wait for it. All other tasks stay in the worker's queue, because
an engine knows no priorities.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler.executors.engines.host_proxy import DropHostObjects, DropRun, SubmitRun
from scaler.executors.inline.thread import PreparedTask, ThreadBlocked, ThreadUnblocked
from scaler.executors.inline.worker import InlineWorker
from scaler.ids import ObjectId
from scaler.kit import ActorRef, handles
from scaler.wire.messages.accounts import account_in
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import ProcessorNews, RunTask


class EngineRunner:
    """Passes the tasks of a worker to the engine, one at a time."""

    def __init__(self, worker: ActorRef, host: ActorRef) -> None:
        self._worker = worker
        self._host = host
        self._task: RunTask | None = None

    def hand(self, prepared: PreparedTask) -> None:
        """Run a task. The previous one has ended."""
        self._task = prepared.task
        self._host.send(SubmitRun(self, self._worker, prepared.task, prepared.values))

    def cancel(self) -> None:
        """Drop the result of the task, and stop the task if the engine can stop tasks."""
        if self._task is not None:
            self._host.send(DropRun((self._task.task_id, self._task.attempt)))

    def permit(self, number: int) -> None:
        """Do nothing, because tasks of an engine resume without permission."""

    def end(self) -> None:
        """Do nothing, because this runner has no thread."""

    def join(self) -> None:
        """Do nothing, because this runner has no thread."""


class EngineWorker(InlineWorker):
    """Queues the tasks of one worker, and passes them to a foreign engine one at a time.

    Args:
        is_deeper_first: whether a task that is deeper than all running tasks of its account starts at once.
    """

    def __init__(self, link: ActorRef, objects: ActorRef, host: ActorRef, is_deeper_first: bool) -> None:
        super().__init__(link, objects, lambda worker: EngineRunner(worker, host))
        self._host = host
        self._is_deeper_first = is_deeper_first

    @handles(Batch[ProcessorNews])
    def _processors_news(self, batch: Batch[ProcessorNews]) -> None:
        """Mark a run as blocked if its client only waits, and as running if an item is on its way to the client."""
        for news in batch:
            for runner, run in list(self._runs.items()):
                if run.task.attempt != news.processor:
                    continue
                if news.has_news:
                    self._task_unblocked(ThreadUnblocked(runner, run.number))
                else:
                    self._task_blocked(ThreadBlocked(runner, run.number))

    def _has_free_slot(self) -> bool:
        return super()._has_free_slot() or (self._is_deeper_first and self._is_next_deeper())

    def _is_next_deeper(self) -> bool:
        """Return whether the next task is deeper than all running tasks of its account: these tasks may wait for it."""
        first = next(iter(self._queue.first_row()), None)
        if first is None:
            return False
        elders = [run.task.priority for run in self._running() if account_in(run.task) == account_in(first)]
        return bool(elders) and first.priority > max(elders)

    def _forget(self, object_ids: Iterable[ObjectId]) -> set[ObjectId]:
        dropped = super()._forget(object_ids)
        if dropped:
            self._host.send(DropHostObjects(dropped))
        return dropped
