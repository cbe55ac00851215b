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
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from math import inf
from typing import Any

from scaler.executors.answers import Answers, End
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
    SplitAll,
    SplitRows,
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
from scaler.executors.processes.slot.processors import Held, Mail, ProcessorRecord, Processors
from scaler.executors.processes.slot.recall import Recall, RecallDue, StuckCheck
from scaler.executors.processes.slot.reserve import EndCheck, Reserve, SpareCheck
from scaler.executors.processes.slot.supplies import Supplies
from scaler.executors.processes.slot.suspension import Suspension, SuspensionDue
from scaler.executors.processes.slot.time_limit import LimitDue, TimeLimit
from scaler.executors.processes.slot.turns import SlotTurns
from scaler.executors.supply import Supply
from scaler.executors.task_queue import RunKey, TaskQueue, run_of
from scaler.ids import NO_ID, ObjectId, TaskId
from scaler.kit import Actor, ActorRef, handles
from scaler.processor.progress_page import ALL
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import RowsError, results_of, row_ids
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
        self._time_limit = TimeLimit(limit_seconds, name, processors, self.now, self.schedule, self._end_overdue)
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
        if isinstance(mail, (ProcessorBlocked, RecallDue)):
            processor = self._processors.get(mail.number)
            if processor is not None:
                self._split(processor)
        self._readers[type(mail)](mail)
        self._hand_out()

    # From the link

    @handles(Batch[RunTask])
    def _run_tasks(self, tasks: Batch[RunTask]) -> None:
        self._queue.add(tasks)
        self._hand_out()

    @handles(Batch[RunCancel])
    def _cancel(self, cancels: Batch[RunCancel]) -> None:
        wanted = set(map(run_of, cancels))
        taken = self._queue.take_out(wanted)
        self._answers.end(taken, _CANCELED)
        known = set(map(run_of, taken))
        for processor in list(self._processors):
            held = processor.runs() & wanted
            if held:
                known |= held
                rows = [row for task in processor.tasks() if run_of(task) in held for row in _runs_of(task)]
                self._split(processor)
                self._end_held(processor, dict.fromkeys(rows, _CANCELED))
        self._answers.report_missing(cancels, known)

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
        if sum([result.rows or 1 for result in results]) > len(processor.held):
            self._cancellation.distrust(processor, "it returned more results than it had tasks")
            return
        finished, unstarted = self._take_results(processor, results)
        if not processor.held:
            processor.held_us = 0.0  # sums of floats drift
        if processor is not self._processors.active:
            self._turns.results_received(processor)
        if unstarted:
            self._queue.put_back(unstarted)
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
        for result in self._as_held(processor, results):
            entry = held.popleft()
            if result.rows and entry is not None:  # all rows of a range
                for _ in range(result.rows - 1):
                    held.popleft()
                processor.extra_rows -= result.rows - 1
                done_us += entry[1] * result.rows
                took_us[entry[0].function_id].extend(repeat(result.duration_us // result.rows, result.rows))
                finished.append(result)
                continue
            if entry is None:
                if result.status == STOPPED:
                    continue  # recalled earlier, and not started
                self._distrust(processor, entry)
                break
            task, expected_us = entry
            if result.task_id != task.task_id or result.attempt != task.attempt:
                self._distrust(processor, entry)
                break
            done_us += expected_us
            end = ends.pop(run_of(task), None) if ends else None
            if result.status != STOPPED:
                took_us[task.function_id].append(result.duration_us)
                finished.append(result)
            elif end is not None:
                self._answers.end([task], end, result.payload, result.profile)
            else:
                unstarted.append(task)
        processor.held_us -= done_us
        processor.results_seen += held_before - len(held)
        return finished, unstarted

    def _as_held(self, processor: ProcessorRecord, results: Batch[RunResult]) -> Iterator[RunResult]:
        """Yield results for whole ranges or single tasks, as the processor holds them.

        A range is split if a row was not started, or if the results of the range arrive in parts.
        """
        for result in results:
            if not result.rows:
                if processor.extra_rows and (first := processor.held[0]) is not None and first[0].rows:
                    self._split(processor)
                yield result
                continue
            held = processor.held[0] if processor.held else None
            if held is None or not _is_whole(held[0], result):
                self._split(processor)
                yield from _split_result(result)
            else:
                yield result

    def _split(self, processor: ProcessorRecord) -> None:
        if processor.extra_rows:
            self._link.send(SplitRows(processor.split()))

    @handles(SplitAll)
    def _split_all(self, _all: SplitAll) -> None:
        ranges = self._queue.split()
        if ranges:
            self._link.send(SplitRows(ranges))
        for processor in self._processors:
            self._split(processor)

    def _distrust(self, processor: ProcessorRecord, entry: Held | None) -> None:
        """Distrust a processor that returned a result of another task in place of the result of this entry."""
        processor.held.appendleft(entry)
        self._cancellation.distrust(processor, "it returned the result of another task than expected")

    @handles(TasksPrinted)
    def _tasks_printed(self, news: TasksPrinted) -> None:
        processor = self._processors.get(news.number)
        if processor is not None and processor.state is not DISTRUSTED:
            self._split(processor)
            self._answers.lines((line, processor.task_at(line.number)) for line in news.lines)

    @handles(ProcessorDown)
    def _processor_down(self, down: ProcessorDown) -> None:
        self._link.send(ExecutorProcessGone(down.number))
        processor = self._processors.get(down.number)
        if processor is None:  # never up
            self._processors.give_up(down.number)
            self._hand_out()
            return
        self._split(processor)
        ends = self._cancellation.ends(processor) or {}
        # A processor that was killed because a task did not end may execute another task by now, which is not to blame.
        to_blame = down.executing if down.is_to_blame and processor.state is not KILLED else 0
        is_distrusted = processor.state is DISTRUSTED
        started = down.executing or (ALL if is_distrusted else 0)
        reason = f"was killed: {self._cancellation.why_killed(processor)}" if is_distrusted else down.reason
        again: list[RunTask] = []
        for number, entry in enumerate(processor.held, processor.results_seen + 1):
            if entry is None:
                continue
            task = entry[0]
            end = ends.get(run_of(task))
            if end is not None:
                self._answers.end([task], end)
            elif number == to_blame or (number <= started and RunOptions.decode(task.options).at_most_once):
                text = f"the processor of worker {self.name} {reason}"
                self._answers.end([task], End(down.status, text))
            else:
                again.append(task)
        self._processors.leave(processor)
        for part in self._parts:
            part.leave(processor)
        self._queue.put_back(again)
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

    def _end_overdue(self, processor: ProcessorRecord, ends: dict[RunKey, End]) -> None:
        self._split(processor)
        self._end_held(processor, ends)

    def _end_held(self, processor: ProcessorRecord, ends: dict[RunKey, End]) -> None:
        self._suspension.end(processor)  # a stopped process cannot be interrupted
        self._cancellation.stop(processor, ends)
        self._turns.let_end(processor)

    def _take_back(self, processor: ProcessorRecord, tasks: list[RunTask]) -> None:
        """Return recalled tasks, which were not started, to the queue, or report them as ended if they must end."""
        ends = self._cancellation.ends(processor) or {}
        back: list[RunTask] = []
        for task in tasks:
            end = ends.pop(run_of(task), None)
            if end is None:
                back.append(task)
            else:
                self._answers.end([task], end)
        self._queue.put_back(back)
        logger.debug("%s: recalled %d tasks queued behind a long-running one", self.name, len(back))

    @handles(ReportRuns)
    def _report_runs(self, request: ReportRuns) -> None:
        request.view.processes += self._processors.now(self._index, self.now())


def _is_whole(task: RunTask, result: RunResult) -> bool:
    """Return whether a result contains the results of all rows of a range, each of which was started."""
    is_of_all = (result.task_id, result.attempt, result.rows) == (task.task_id, task.attempt, task.rows)
    return is_of_all and STOPPED not in result.statuses


def _split_result(result: RunResult) -> Sequence[RunResult]:
    """Return the result of a range as results of its rows; for a malformed result, one result that matches no task."""
    try:
        return results_of(result)
    except RowsError:
        return [RunResult(TaskId(NO_ID), 0, 0, TaskStatus.FAILED, b"", 0, ())]


def _runs_of(task: RunTask) -> list[RunKey]:
    return [(task_id, task.attempt) for task_id in row_ids(task.task_id, task.rows)]
