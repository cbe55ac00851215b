"""InlineWorker: one worker of the engine `inline`: its tasks, and the threads that run them.

    link --RunTask--> queue --> RUNS --waits--> WAITS --asks--> ASKS --permission--> RUNS --> result
                                 |                |               |
                                 +----------------+-- cancelled --+--> ABANDONED

One task at a time has the slot: RUNS. While this task waits for other tasks, another thread runs another task. No
thread can be stopped. So a cancelled task is answered at once, and its thread finishes the task without the slot. The
worker never waits for a thread that runs a task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import count

from scaler.executors.answers import Answers, End
from scaler.executors.inline.thread import (
    PreparedTask,
    Runner,
    TaskEnded,
    TaskThread,
    ThreadBlocked,
    ThreadProgress,
    ThreadResumable,
    ThreadUnblocked,
)
from scaler.executors.messages import (
    CollectionDue,
    ForgetObjects,
    NeedObject,
    ObjectFound,
    ObjectUnavailable,
    ProcessNow,
    ReportRuns,
)
from scaler.executors.supply import Stock, Supply
from scaler.executors.task_queue import TaskQueue, run_of
from scaler.ids import ObjectId
from scaler.kit import Actor, ActorRef, handles
from scaler.message import message
from scaler.pickling.serialization import Named, serves_nothing
from scaler.processor.execution.values import LoadedValues
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import OutputStream, TaskStatus
from scaler.wire.messages.processor import TaskOutput
from scaler.wire.messages.worker import RecallRequest, RunCancel, RunResult, RunTask

logger = logging.getLogger(__name__)

_CANCELED = End(TaskStatus.CANCELED)

REPORT_SECONDS = 0.25
"""The shortest time between two progress reports of a task. Only the latest report is sent."""
IDLE_MOST = 2
"""The maximum number of idle threads that are kept for later tasks."""


@cache
def _warn_seed_ignored() -> None:
    logger.warning(
        "the option seed does not apply to random and numpy.random here, because tasks run in threads of a program, or "
        "in another engine: draw from scaler.current_task().rng(), which has the seed"
    )


class _State(Enum):
    RUNS = "runs"
    WAITS = "waits"
    ASKS = "asks"
    ABANDONED = "abandoned"


@dataclass(eq=False)
class _ThreadRun:
    task: RunTask
    number: int
    thread: Runner
    started_at: float
    state: _State = _State.RUNS


@message
class ThreadLimitDue:
    """Worker to itself, by timer: the time limit of the task in this thread is over; end the task, if it still runs."""

    thread: Runner
    number: int
    seconds: float


@message
class ProgressReportDue:
    """Worker to itself, by timer: send the progress report of the task in this thread."""

    thread: TaskThread
    number: int


class InlineWorker(Actor):
    """Queues the tasks of one worker, and runs them one at a time; `named` finds functions that tasks call by name."""

    def __init__(
        self,
        link: ActorRef,
        objects: ActorRef,
        new_thread: Callable[[ActorRef], Runner],
        named: Named = serves_nothing,
    ) -> None:
        self._link = link
        self._answers = Answers(link)
        self._new_thread = new_thread
        self._queue = TaskQueue()
        self._cache = objects
        self._supply, self._stock = Supply(self._request_object), Stock()
        self._values = LoadedValues(named)
        self._runs: dict[Runner, _ThreadRun] = {}
        self._idle: list[Runner] = []
        self._next_number = count(1).__next__

    # From the link

    @handles(Batch[RunTask])
    def _run_tasks(self, tasks: Batch[RunTask]) -> None:
        self._queue.add(tasks)
        self._run_next()

    @handles(Batch[RunCancel])
    def _cancel(self, cancels: Batch[RunCancel]) -> None:
        wanted = set(map(run_of, cancels))
        taken = self._queue.take_out(wanted)
        self._answers.end(taken, _CANCELED)
        for run in list(self._runs.values()):
            if run_of(run.task) in wanted and run.state is not _State.ABANDONED:
                self._abandon(run, _CANCELED)
        self._report_missing(cancels, taken)
        self._run_next()

    def _abandon(self, run: _ThreadRun, end: End) -> None:
        if run.state is _State.ASKS:
            run.thread.permit(run.number)
        run.state = _State.ABANDONED
        self._answers.end([run.task], end)
        run.thread.cancel()

    @handles(ThreadLimitDue)
    def _limit_due(self, due: ThreadLimitDue) -> None:
        run = self._runs.get(due.thread)
        if run is not None and run.number == due.number and run.state is not _State.ABANDONED:
            text = f"it ran for longer than its limit of {due.seconds:g} s (its option timeout)"
            self._abandon(run, End(TaskStatus.TIMED_OUT, text))
            self._run_next()

    @handles(Batch[RecallRequest])
    def _recall_requested(self, requests: Batch[RecallRequest]) -> None:
        taken = self._queue.take_out(set(map(run_of, requests)))
        self._answers.recalled(taken)
        self._report_missing(requests, taken)

    def _report_missing(self, named: Sequence[RunCancel | RecallRequest], taken: list[RunTask]) -> None:
        known = {run_of(task) for task in (*taken, *(run.task for run in self._runs.values()))}
        self._answers.report_missing(named, known)

    @handles(ReportRuns)
    def _report_runs(self, request: ReportRuns) -> None:
        """Add the runs of this worker to the view, with the process id 0: that of the agent, or an unknown one."""
        now = self.now()
        for run in self._runs.values():
            if run.state is not _State.ABANDONED:
                is_waiting = run.state is not _State.RUNS
                request.view.processes.append(
                    ProcessNow(run.task.worker, 0, run.task, now - run.started_at, is_waiting)
                )

    # From the object cache

    def _request_object(self, object_id: ObjectId, is_function: bool) -> None:
        self._cache.send(NeedObject(object_id, self.actor_ref, is_function))

    @handles(ObjectFound)
    def _object_found(self, found: ObjectFound) -> None:
        stored = found.stored
        self._supply.found(stored.object_id)
        self._stock.add(stored)
        self._values.store(stored.object_id, stored.frames if stored.block is None else stored.block.map())
        self._queue.bring_back()
        self._run_next()

    @handles(ObjectUnavailable)
    def _object_lost(self, lost: ObjectUnavailable) -> None:
        failed = self._queue.take_out(self._supply.lost(lost.object_id, self._queue))
        self._answers.end(failed, End(TaskStatus.MISSING_OBJECTS, lost.sentence()))
        self._queue.bring_back()
        self._run_next()

    @handles(ForgetObjects)
    def _forget_objects(self, forget: ForgetObjects) -> None:
        self._forget(forget.object_ids)

    @handles(CollectionDue)
    def _collection_due(self, _due: CollectionDue) -> None:
        self._forget(self._stock.has - self._stock.used)
        self._stock.used.clear()

    def _forget(self, object_ids: Iterable[ObjectId]) -> set[ObjectId]:
        """Remove objects: tasks that start from now on do not see them. Return the ids of the removed objects.

        Threads read `_values` at the same time, so it is replaced by a new object and never changed in place.
        """
        dropped = self._stock.forget(object_ids)
        if dropped:
            self._values = self._values.without(dropped)
        return dropped

    # From the threads

    @handles(TaskEnded)
    def _task_ended(self, ended: TaskEnded) -> None:
        run = self._runs.pop(ended.thread)
        if len(self._idle) < IDLE_MOST:
            self._idle.append(ended.thread)
        else:
            ended.thread.end()
        if run.state is not _State.ABANDONED:
            self._link.send(Batch[RunResult]([ended.result]))
        self._run_next()

    @handles(ThreadBlocked)
    def _task_blocked(self, waits: ThreadBlocked) -> None:
        run = self._run_if(waits)
        if run is not None and run.state is _State.RUNS:
            run.state = _State.WAITS
            self._answers.blocked(run.task)
            self._run_next()

    @handles(ThreadResumable)
    def _task_resumable(self, asks: ThreadResumable) -> None:
        run = self._run_if(asks)
        if run is not None and run.state is _State.WAITS:
            run.state = _State.ASKS
            self._run_next()
        else:  # the run was abandoned: it continues only to end
            asks.thread.permit(asks.number)

    @handles(ThreadUnblocked)
    def _task_unblocked(self, unblocked: ThreadUnblocked) -> None:
        run = self._run_if(unblocked)
        if run is not None and run.state is _State.WAITS:
            self._unblock(run)

    @handles(ThreadProgress)
    def _task_reports(self, reports: ThreadProgress) -> None:
        """Schedule the sending of a progress report. Until then, later reports of the task replace the report."""
        self.schedule(REPORT_SECONDS, ProgressReportDue(reports.thread, reports.number))

    @handles(ProgressReportDue)
    def _report_due(self, due: ProgressReportDue) -> None:
        report, run = due.thread.take_report(), self._run_if(due)
        if report is not None and run is not None and run.state is not _State.ABANDONED:
            line = TaskOutput(run.number, OutputStream.REPORT, report[0], 0, report[1])
            self._answers.lines([(line, (run.task, 0))])

    def _run_if(self, news: ThreadBlocked | ThreadResumable | ThreadUnblocked | ProgressReportDue) -> _ThreadRun | None:
        """Return the run that a message is about; None if that run has ended."""
        run = self._runs.get(news.thread)
        return run if run is not None and run.number == news.number else None

    # Turns

    def _run_next(self) -> None:
        """Give the slot to the task with the greatest priority that asks to resume, or else to the next queued task."""
        while self._has_free_slot():
            asking = [run for run in self._runs.values() if run.state is _State.ASKS]
            if asking:
                run = max(asking, key=lambda run: run.task.priority)
                self._unblock(run)
                run.thread.permit(run.number)
                continue
            task = self._supply.take(self._queue, self._stock)
            if task is None:
                return
            thread = self._idle.pop() if self._idle else self._new_thread(self.actor_ref)
            number = self._next_number()
            self._runs[thread] = _ThreadRun(task, number, thread, self.now())
            thread.hand(PreparedTask(number, task, self._values))
            if task.options:
                self._apply_options(RunOptions.decode(task.options), thread, number)

    def _apply_options(self, options: RunOptions, thread: Runner, number: int) -> None:
        if options.timeout_ms:
            self.schedule(options.timeout_ms / 1000, ThreadLimitDue(thread, number, options.timeout_ms / 1000))
        if options.seed:
            _warn_seed_ignored()

    def _has_free_slot(self) -> bool:
        return not self._running()

    def _running(self) -> list[_ThreadRun]:
        return [run for run in self._runs.values() if run.state is _State.RUNS]

    def _unblock(self, run: _ThreadRun) -> None:
        run.state = _State.RUNS
        self._answers.unblocked(run.task)

    # The end

    def on_stop(self) -> None:
        """End all threads. A thread that runs a task ends after the task."""
        for thread in (*self._runs, *self._idle):
            thread.end()
        for thread in self._idle:
            thread.join()

    def on_failure(self, *_error: object) -> None:
        self.on_stop()
