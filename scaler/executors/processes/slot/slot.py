"""Slot: the queue of one worker, and the tasks that its processors hold.

    link --RunTask--> queue --SendTasks--> held by a processor --TasksFinished--> link
                        ^                         |
                        +------- taken back ------+

The parts of a slot decide about tasks and processors. Each part keeps its own data about a processor. The slot passes
on to each part the messages for which the part has handlers:

- `prefetch.py`: how many tasks a processor gets at a time; only tasks whose objects it has (`supplies.py`)
- `turns.py`: which processor gets tasks while tasks are blocked
- `cancellation.py`, `time_limit.py` and `recall.py`: which tasks are ended or taken back
- `reserve.py`: how many processors there are, and when new processors replace them
- `suspension.py`: when the process of a blocked task is stopped

The slot decodes no payload, answers each task once, and accepts the results of a processor only in the order of the
processor's tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import repeat
from math import inf
from typing import Any

from scaler.executors.answers import Answers, End, ended
from scaler.executors.messages import (
    CollectionDue,
    ExecutorProcessGone,
    ForgetObjects,
    NeedObject,
    ObjectFound,
    ObjectUnavailable,
    PauseTasks,
    ReportRuns,
    RestartProcesses,
)
from scaler.executors.processes.messages import (
    AddProcessor,
    ProcessorBlocked,
    ProcessorComing,
    ProcessorDown,
    ProcessorKept,
    ProcessorNotComing,
    ProcessorResumable,
    ProcessorUnblocked,
    ProcessorUp,
    SendTasks,
    TasksFinished,
    TasksPrinted,
)
from scaler.executors.processes.slot.cancellation import STOPPED, Cancellation, StopDue
from scaler.executors.processes.slot.prefetch import HELD_TASKS, HELD_US, TOGETHER_US, Prefetch
from scaler.executors.processes.slot.processor_states import DISTRUSTED, KILLED
from scaler.executors.processes.slot.processors import Mail, ProcessorRecord, Processors
from scaler.executors.processes.slot.recall import Recall, RecallDue, StuckCheck
from scaler.executors.processes.slot.reserve import EndCheck, Reserve, SpareCheck
from scaler.executors.processes.slot.supplies import Supplies
from scaler.executors.processes.slot.suspension import Suspension, SuspensionDue
from scaler.executors.processes.slot.time_limit import LimitDue, TimeLimit
from scaler.executors.processes.slot.turns import SlotTurns
from scaler.executors.supply import Supply
from scaler.executors.task_queue import RunKey, TaskQueue, run_of
from scaler.ids import ObjectId
from scaler.kit import Actor, ActorRef, handles
from scaler.processor.progress_page import ALL
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import part_of, row_id, row_of
from scaler.wire.messages.worker import ProcessorNews, RecallRequest, RunCancel, RunResult, RunTask

logger = logging.getLogger(__name__)

_CANCELED = End(TaskStatus.CANCELED)
_RESULTS = Batch[RunResult]


class Slot(Actor):
    """Queues the tasks of one worker, and sends them to its processors."""

    def __init__(
        self,
        name: str,
        index: int,
        link: ActorRef,
        objects: ActorRef,
        pool: ActorRef,
        limit_seconds: float = 0,
        waiting_most: float = inf,
    ) -> None:
        """Create the slot. `limit_seconds`: how long a task may run, including its waits; 0: unlimited."""
        self.name, self._index = name, index
        self._link, self._objects, self._pool = link, objects, pool
        self._answers = Answers(link)
        self._queue = TaskQueue()
        self._processors = processors = Processors()
        self._supply = Supply(self._request_object)
        self._supplies = Supplies(processors, self._supply)
        self._prefetch = Prefetch(self._queue, self._supplies)
        self._reserve = Reserve(processors, self._request_processor, self.schedule)
        self._recall = Recall(processors, self.schedule, self._take_back)
        self._cancellation = Cancellation(processors, self.now, self.schedule, self._recall.withhold)
        self._time_limit = TimeLimit(limit_seconds, name, processors, self.now, self.schedule, self._end_held)
        self._suspension = Suspension(processors, self.now, self.schedule)
        self._turns = SlotTurns(
            processors,
            self._queue,
            self._answers,
            reserve=self._reserve,
            cancellation=self._cancellation,
            recall=self._recall,
            suspension=self._suspension,
            end=self._end_held,
            most=waiting_most,
        )
        ending = self._cancellation, self._time_limit, self._suspension
        self._parts = (self._supplies, self._reserve, self._recall, *ending)
        self._readers: Mail = dict(self._turns.mail)
        for part in self._parts:
            self._readers.update(part.mail)
        self._may_start: Callable[[RunTask], bool] | None = None
        """returns whether a task may start during a pause for lack of memory; None: the worker is not paused"""

    @handles(
        *(ProcessorComing, ProcessorNotComing, ProcessorKept),
        *(ProcessorBlocked, ProcessorResumable, ProcessorUnblocked, Batch[ProcessorNews], CollectionDue),
        *(RestartProcesses, SuspensionDue, LimitDue, RecallDue, SpareCheck, EndCheck, StopDue, StuckCheck),
    )
    def _dispatch_to_part(self, mail: Any) -> None:
        self._readers[type(mail)](mail)
        self._hand_out()

    # From the link

    @handles(Batch[RunTask])
    def _run_tasks(self, tasks: Batch[RunTask]) -> None:
        self._queue.add(tasks)
        self._hand_out()

    @handles(Batch[RunCancel])
    def _cancel(self, cancels: Batch[RunCancel]) -> None:
        held = [task for processor in self._processors for task in processor.tasks()]
        ranges = {task.attempt: task for task in (*self._queue, *held) if task.rows}
        wanted, rows = set[RunKey](), []
        for cancel in cancels:
            task = None if cancel.rows else ranges.get(cancel.attempt)
            if task is not None and row_of(task, cancel.task_id) is not None:
                rows.append(cancel)
            else:
                wanted.add(run_of(cancel))
        taken = self._queue.take_out(wanted)
        self._answers.end(taken, _CANCELED)
        known = {*map(run_of, taken), *map(run_of, rows)}
        for processor in list(self._processors):
            runs = processor.runs() & wanted
            if runs:
                known |= runs
                self._end_held(processor, dict.fromkeys(runs, _CANCELED))
        for cancel in rows:
            self._cancel_row(ranges[cancel.attempt], cancel)
        self._answers.report_missing(cancels, known)

    def _cancel_row(self, task: RunTask, cancel: RunCancel) -> None:
        """Cancel one row of a range: the scheduler has a task for each row of the ranges that were in a hello.

        A range that has not started is returned. Another range ends at the row that runs.
        """
        self._answers.recalled(self._queue.take_out({run_of(task)}))
        processor = next((each for each in self._processors if run_of(task) in each.runs()), None)
        if processor is None:
            return
        (first, *_rows), row = processor.numbers_of({run_of(task)}), row_of(task, cancel.task_id)
        assert row is not None
        executing = processor.progress.executing
        if executing < first and not row:  # the key of row 0 is that of the range
            row = 1
        if executing <= first + row:
            self._end_held(processor, {(row_id(task.task_id, row), task.attempt): _CANCELED})

    @handles(Batch[RecallRequest])
    def _recall_requested(self, requests: Batch[RecallRequest]) -> None:
        taken = self._queue.take_out(set(map(run_of, requests)))
        self._answers.recalled(taken)
        known = set(map(run_of, taken)).union(*(processor.runs() for processor in self._processors))
        self._answers.report_missing(requests, known)

    # From the object cache

    @handles(PauseTasks)
    def _pause(self, pause: PauseTasks) -> None:
        self._may_start = pause.may_start
        self._hand_out()

    @handles(ObjectFound)
    def _object_found(self, found: ObjectFound) -> None:
        self._supplies.found(found.stored, self._processors.active)
        self._queue.bring_back()
        self._hand_out()

    @handles(ObjectUnavailable)
    def _object_lost(self, lost: ObjectUnavailable) -> None:
        failed = self._queue.take_out(self._supply.lost(lost.object_id, self._queue))
        self._answers.end(failed, End(TaskStatus.MISSING_OBJECTS, lost.sentence()))
        self._queue.bring_back()
        self._hand_out()

    @handles(ForgetObjects)
    def _forget_objects(self, forget: ForgetObjects) -> None:
        self._prefetch.forget(forget.object_ids)
        self._supplies.forget(forget.object_ids)

    def _request_object(self, object_id: ObjectId, is_function: bool) -> None:
        self._objects.send(NeedObject(object_id, self.actor_ref, is_function))

    # From the pool and the processors

    @handles(ProcessorUp)
    def _processor_up(self, up: ProcessorUp) -> None:
        self._supplies.join(self._processors.join(up.number, up.proxy, up.progress, up.is_extra, up.pid))
        self._reserve.watch()
        self._queue.bring_back()
        self._hand_out()

    def _request_processor(self) -> None:
        self._pool.send(AddProcessor(self._index))

    @handles(TasksFinished)
    def _tasks_finished(self, news: TasksFinished) -> None:
        processor, results = self._processors.get(news.number), news.results
        if processor is None or not results or processor.state is DISTRUSTED:
            return
        if sum(map(_n_ended, results)) > len(processor.held):
            self._cancellation.distrust(processor, "it returned more results than it had tasks")
            return
        finished, unstarted = self._take_results(processor, results)
        if not processor.held:
            processor.held_us = 0.0  # sums of floats drift
        if processor is not self._processors.active:
            self._turns.results_received(processor)
        self._give_back(processor, unstarted)
        if finished:
            self._link.send(finished)
        self._hand_out()

    def _take_results(
        self, processor: ProcessorRecord, results: Batch[RunResult]
    ) -> tuple[Batch[RunResult], list[RunTask]]:
        """Return the results for the scheduler, and the tasks that were not started and must run again.

        A processor that answers for an unexpected task is killed and distrusted: user code has written to its channel.
        """
        held = processor.held
        ends = self._cancellation.ends(processor) if self._cancellation.stops else None
        held_before = len(held)
        took_us, done_us = self._prefetch.took_us, 0.0
        finished = _RESULTS()
        unstarted: list[RunTask] = []
        for result in results:
            entry = held[0] if held else None
            if entry is None or result.status == STOPPED:
                if not (result.status == STOPPED and self._take_stopped(processor, result, finished, unstarted)):
                    self._distrust(processor)
                    break
                continue
            task, expected_us = entry
            if result.task_id != task.task_id or result.attempt != task.attempt or not _is_complete(result, task):
                self._distrust(processor)
                break
            if ends:
                _move_ends(ends, task, result)
            finished.append(result)
            if not task.rows:
                held.popleft()
                done_us += expected_us
                took_us[task.function_id].append(result.duration_us)
                continue
            n_rows = result.rows
            if result.running:
                done_us += processor.end_range(n_rows)
            else:
                processor.take(n_rows)
                done_us += expected_us * n_rows
            if n_rows:
                took_us[task.function_id].extend(repeat(result.duration_us // n_rows, n_rows))
        processor.held_us -= done_us
        processor.results_seen += held_before - len(held)
        return finished, unstarted

    def _take_stopped(
        self, processor: ProcessorRecord, result: RunResult, finished: Batch[RunResult], unstarted: list[RunTask]
    ) -> bool:
        """Take tasks or rows that the processor has interrupted, or not started. Return False if it did not have them.

        Those that must end are added to `finished`, the others to `unstarted`.
        """
        ends = self._cancellation.ends(processor) or {}
        n_rows, n_taken = result.rows or 1, 0
        while n_taken < n_rows:
            entry = processor.held[0]
            count = 1 if entry is None else entry[0].rows or 1
            if entry is not None:
                task, expected_us = entry
                task_id = row_id(result.task_id, n_taken)
                if (task.task_id, task.attempt) != (task_id, result.attempt) or n_taken + count > n_rows:
                    return False
                processor.held_us -= expected_us * count
                end = ends.pop(run_of(task), None)
                if end is not None:
                    finished.append(ended(task, end, result.payload, result.profile))
                else:
                    unstarted.append(task)
            processor.take(count)
            n_taken += count
        return True

    def _distrust(self, processor: ProcessorRecord) -> None:
        """Distrust a processor that returned a result of another task than the next one."""
        self._cancellation.distrust(processor, "it returned the result of another task than expected")

    @handles(TasksPrinted)
    def _tasks_printed(self, news: TasksPrinted) -> None:
        processor = self._processors.get(news.number)
        if processor is not None and processor.state is not DISTRUSTED:
            self._answers.lines((line, processor.row_at(line.number)) for line in news.lines)

    @handles(ProcessorDown)
    def _processor_down(self, down: ProcessorDown) -> None:
        self._link.send(ExecutorProcessGone(down.number))
        processor = self._processors.get(down.number)
        if processor is None:  # never up
            self._processors.give_up(down.number)
            self._hand_out()
            return
        ends = self._cancellation.ends(processor) or {}
        # A processor that was killed because a task did not end may execute another task by now, which is not to blame.
        to_blame = down.executing if down.is_to_blame and processor.state is not KILLED else 0
        is_distrusted = processor.state is DISTRUSTED
        started = down.executing or (ALL if is_distrusted else 0)
        reason = f"was killed: {self._cancellation.why_killed(processor)}" if is_distrusted else down.reason
        again: list[RunTask] = []
        blame = End(down.status, f"the processor of worker {self.name} {reason}")
        last = processor.results_seen
        for entry, count in processor.entries():
            number, last = last + 1, last + count
            if entry is None:
                continue
            task = entry[0]
            if task.rows and number <= down.executing <= last and run_of(task) not in ends:
                row = part_of(task, down.executing - number, 1)
                if run_of(row) in ends or down.executing == to_blame:
                    self._answers.end_range(task, down.executing - number)
                    task, number = row, down.executing
            end = ends.pop(run_of(task), None)
            if end is not None:
                self._answers.end([task], end)
            elif number == to_blame or (number <= started and RunOptions.decode(task.options).at_most_once):
                self._answers.end([task], blame)
            else:
                again.append(task)
        self._give_back(processor, again)
        self._processors.leave(processor)
        for part in self._parts:
            part.leave(processor)
        self._hand_out()

    # Tasks that are sent to a processor, and tasks that leave it before they are done

    def _hand_out(self) -> None:
        """Send tasks to the processor whose turn it is. A processor with a task that must end gets no tasks."""
        old = self._reserve.old
        if old:
            self._reserve.dismiss_old()
        processor = self._turns.next()
        if processor is None or not self._queue.first_row() or processor.number in old:
            return
        if self._cancellation.stops and self._cancellation.ends(processor):
            return
        if self._may_start is not None and (processor.held or not self._queue.has_first(self._may_start)):
            return
        # A task that asks to resume waits for all tasks that another processor holds.
        together_us = HELD_US if self._processors.has_blocked else TOGETHER_US
        portion = self._prefetch.take(processor, together_us, HELD_TASKS if self._may_start is None else 1)
        if portion:
            hand = SendTasks(processor.number, portion)
            processor.proxy.send(hand)
            if self._prefetch.unweighed is None:
                self._watch(processor, portion)
            else:
                self.actor_ref.send(hand)

    @handles(SendTasks)
    def _handed_out(self, hand: SendTasks) -> None:
        self._prefetch.weigh()
        processor = self._processors.get(hand.number)
        if processor is not None:
            self._watch(processor, hand.tasks)

    def _watch(self, processor: ProcessorRecord, portion: Sequence[RunTask]) -> None:
        self._time_limit.watch(processor, portion)
        self._recall.watch(processor)

    def _end_held(self, processor: ProcessorRecord, ends: dict[RunKey, End]) -> None:
        self._suspension.end(processor)  # a stopped process cannot be interrupted
        self._cancellation.stop(processor, ends)
        self._turns.let_end(processor)

    def _take_back(self, processor: ProcessorRecord, tasks: list[RunTask]) -> None:
        """Return recalled tasks, which were not started, to the queue, or report them as ended if they must end."""
        self._give_back(processor, tasks)
        logger.debug("%s: recalled %d tasks queued behind a long-running one", self.name, len(tasks))

    def _give_back(self, processor: ProcessorRecord, tasks: list[RunTask]) -> None:
        """Return tasks that a processor has not started to the queue, unless they must end.

        A range of which a row must end returns to the scheduler, where its rows are tasks.
        """
        ends = (self._cancellation.ends(processor) if self._cancellation.stops else None) or {}
        back: list[RunTask] = []
        for task in tasks:
            end = ends.pop(run_of(task), None)
            rows = [key for key in ends if key[1] == task.attempt and row_of(task, key[0]) is not None]
            for key in rows:
                del ends[key]
            if end is not None:
                self._answers.end([task], end)
            elif rows:
                self._answers.recalled([task])
            else:
                back.append(task)
        if back:
            self._queue.put_back(back)

    @handles(ReportRuns)
    def _report_runs(self, request: ReportRuns) -> None:
        request.view.processes += self._processors.now(self._index, self.now())


def _n_ended(result: RunResult) -> int:
    """Return the number of tasks or rows whose results a result has."""
    return result.rows if result.running else result.rows or 1


def _is_complete(result: RunResult, task: RunTask) -> bool:
    """Return whether a result has all rows of its task, or ends a range early and names the next row as running."""
    if result.running:
        return task.rows > 0 and result.running == result.rows + 1 <= task.rows
    return result.rows == task.rows


def _move_ends(ends: dict[RunKey, End], task: RunTask, result: RunResult) -> None:
    """Forget that a task, or rows of a range, must end, since they have ended; for a row that goes on, remember it."""
    row = (row_id(task.task_id, result.rows), task.attempt) if result.running else None
    end = ends.pop(run_of(task), None)
    if row is not None and end is not None:
        ends[row] = end
    for key in [key for key in ends if key != row and key[1] == task.attempt and row_of(task, key[0]) is not None]:
        del ends[key]
