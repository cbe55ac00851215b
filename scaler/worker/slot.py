"""Slot: the queue of one worker, and what its processors hold.

The link writes to it (tasks, cancels, wishes to have tasks back), the object cache (objects), and the processors
(coming, up, results, waits, down). It sends tasks and objects to a processor, results to the link, and asks the object
cache for what tasks need and the pool for more processors.

    link --RunTask--> queue --HandTasks--> held by a processor --TasksFinished--> link
                        ^                          |
                        +---- taken back ----------+

A processor gets a few milliseconds of work at a time (`prefetch.py`), and only tasks whose objects it has
(`supplies.py`). When that was too much, because a task takes longer than all those before it, the tasks behind it are
taken back (`recall.py`). How a task ends that a processor holds and that is cancelled, is in `cancellation.py`; one
that runs for longer than it may (`time_limit.py`) ends so too.

A worker runs one task at a time. One whose task waits for other tasks has further processors (`processors.py`,
`reserve.py`), and the scheduler is told, which may send other tasks meanwhile. When its process is stopped, is in
`suspension.py`.

These rooms know of one processor at a time. Here is what concerns several: the queue, whose turn it is, the answers.

Must never: decode a payload, answer a task twice, or believe a result that is not that of the task at its place.
"""

from __future__ import annotations

import logging
from math import inf

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.agent.messages import (
    CollectionDue,
    ExecutorProcessGone,
    ForgetObjects,
    NeedObject,
    ObjectFound,
    ObjectLost,
    RunsNotHere,
)
from scaler.ids import ObjectId
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import (
    ProcessorNews,
    RecallRequest,
    RecallResponse,
    RunBlocked,
    RunCancel,
    RunResult,
    RunTask,
    RunUnblocked,
)
from scaler.worker.cancellation import STOPPED, StopDue, Stopping
from scaler.worker.messages import (
    AddProcessor,
    HandTasks,
    ProcessorComing,
    ProcessorDown,
    ProcessorNotComing,
    ProcessorStays,
    ProcessorUp,
    ResumeProcessor,
    TaskAsks,
    TaskBlocks,
    TasksFinished,
    TaskUnblocks,
)
from scaler.worker.prefetch import Prefetch
from scaler.worker.processors import End, Processors, ProcessorState
from scaler.worker.recall import Recall, RecallDue, StuckCheck
from scaler.worker.reserve import Reserve, SpareCheck
from scaler.worker.supplies import Supplies
from scaler.worker.suspension import BreathDue, Suspension
from scaler.worker.task_queue import RunKey, TaskQueue, run_of
from scaler.worker.time_limit import LimitDue, TimeLimit

logger = logging.getLogger(__name__)

_CANCELED = End(TaskStatus.CANCELED)


class Slot(Actor):
    """One worker of a node."""

    def __init__(
        self, name: str, index: int, link: ActorRef, objects: ActorRef, pool: ActorRef, limit_seconds: float = 0
    ) -> None:
        """`limit_seconds`: how long a task may run, its waits for other tasks included; 0: as long as it likes."""
        self.name = name
        self._index = index
        self._link = link
        self._objects = objects
        self._pool = pool
        self._processors = Processors()
        self._queue = TaskQueue()
        self._supplies = Supplies(self._ask_for_object)
        self._prefetch = Prefetch(self._queue, self._supplies)
        self._reserve = Reserve(self._processors, self._ask_for_processor, self.schedule)
        self._recall = Recall(self.schedule)
        self._stopping = Stopping(self.now, self.schedule, self._recall.withhold)
        self._time_limit = TimeLimit(limit_seconds, name, self.now, self.schedule)
        self._suspension = Suspension(self.now, self.schedule)

    # From the link

    @handles(Batch[RunTask])
    def _run_tasks(self, tasks: Batch[RunTask]) -> None:
        self._queue.add(tasks)
        self._hand_out()

    @handles(Batch[RunCancel])
    def _cancel(self, cancels: Batch[RunCancel]) -> None:
        wanted = set(map(run_of, cancels))
        taken = self._queue.take_out(wanted)
        self._end(taken, _CANCELED)
        here = set(map(run_of, taken))
        for processor in list(self._processors):
            held = processor.runs() & wanted
            if held:
                here |= held
                self._do_without(processor, dict.fromkeys(held, _CANCELED))
        self._say_not_here([cancel for cancel in cancels if run_of(cancel) not in here])

    @handles(Batch[RecallRequest])
    def _give_back(self, requests: Batch[RecallRequest]) -> None:
        """Part with the tasks that only wait here; what the processor has stays."""
        taken = self._queue.take_out(set(map(run_of, requests)))
        if taken:
            self._link.send(
                Batch[RecallResponse](RecallResponse(task.task_id, task.worker, task.attempt) for task in taken)
            )
        here = set(map(run_of, taken)).union(*(processor.runs() for processor in self._processors))
        self._say_not_here([request for request in requests if run_of(request) not in here])

    def _say_not_here(self, runs: list[RunCancel] | list[RecallRequest]) -> None:
        """Nobody shall wait for an answer about these runs; mostly their results were quicker."""
        if runs:
            self._link.send(RunsNotHere(runs))

    # From the object cache

    @handles(ObjectFound)
    def _object_found(self, found: ObjectFound) -> None:
        self._supplies.found(found.stored, self._processors.active)
        self._queue.bring_back()
        self._hand_out()

    @handles(ObjectLost)
    def _object_lost(self, lost: ObjectLost) -> None:
        failed = self._queue.take_out(self._supplies.lost(lost.object_id, self._queue))
        text = f"object {lost.object_id.hex()} that the task needs is not stored any more"
        self._end(failed, End(TaskStatus.MISSING_OBJECTS, text))
        self._queue.bring_back()
        self._hand_out()

    @handles(ForgetObjects)
    def _forget_objects(self, forget: ForgetObjects) -> None:
        self._prefetch.forget(forget.object_ids)
        for processor in self._processors:
            self._supplies.drop(processor, forget.object_ids)

    @handles(CollectionDue)
    def _collection_due(self, _due: CollectionDue) -> None:
        for processor in self._processors:
            self._supplies.clean(processor)

    def _ask_for_object(self, object_id: ObjectId) -> None:
        self._objects.send(NeedObject(object_id, self.actor_ref))

    # From the processor

    @handles(ProcessorComing)
    def _processor_coming(self, coming: ProcessorComing) -> None:
        self._processors.asked = max(0, self._processors.asked - 1) if coming.is_extra else 0
        self._processors.coming.add(coming.number)

    @handles(ProcessorNotComing)
    def _processor_not_coming(self, not_coming: ProcessorNotComing) -> None:
        self._processors.coming.discard(not_coming.number)
        self._hand_out()

    @handles(ProcessorUp)
    def _processor_up(self, up: ProcessorUp) -> None:
        processor = ProcessorState(up.number, up.proxy, up.progress, up.is_extra)
        self._processors.join(processor)
        if self._processors.active is None:
            self._processors.activate(processor)
        self._supplies.start_again()
        self._queue.bring_back()
        self._hand_out()

    @handles(ProcessorStays)
    def _processor_stays(self, stays: ProcessorStays) -> None:
        """It was to end, and cannot: a client in it has open tasks."""
        processor = self._processors.get(stays.number)
        if processor is not None:
            self._processors.put_back(processor)
            self._hand_out()

    @handles(TasksFinished)
    def _tasks_finished(self, news: TasksFinished) -> None:
        processor = self._processors.get(news.number)
        if processor is None:
            return
        if processor.distrusted:
            return
        if len(news.results) > len(processor.held):
            self._distrust(processor, "it gave more results than it had tasks")
            return
        finished, unstarted = self._take_results(processor, news.results)
        if not processor.held:
            processor.held_us = 0.0  # sums of floats drift
            self._processors.put_back(processor)
            self._reserve.watch()
        self._queue.put_back(unstarted)
        if finished:
            self._link.send(finished)
        self._hand_out()

    def _take_results(
        self, processor: ProcessorState, results: Batch[RunResult]
    ) -> tuple[Batch[RunResult], list[RunTask]]:
        """Return the results that go to the scheduler, and the tasks that were not started and shall be.

        A result that is not that of the task at its place ends the processor: user code has written to the channel, or
        a process that a task forked has come back from it. Which of the further results are right cannot be known.
        """
        held, learn = processor.held, self._prefetch.learn
        held_before = len(held)
        done_us = 0.0
        finished = Batch[RunResult]()
        unstarted: list[RunTask] = []
        for result in results:
            entry = held.popleft()
            if entry is None:
                continue  # taken back long ago
            task, expected_us = entry
            if result.task_id != task.task_id or result.attempt != task.attempt:
                held.appendleft(entry)
                self._distrust(processor, "it gave the result of another task than the one that was due")
                break
            done_us += expected_us
            end = processor.unwanted.pop(run_of(task), None) if processor.unwanted else None
            if result.status != STOPPED:
                learn(task.function_id, result.duration_us)
                finished.append(result)
            elif end is not None:
                self._end([task], end, result.payload, result.profile)
            else:
                unstarted.append(task)
        processor.held_us -= done_us
        processor.results_seen += held_before - len(held)
        return finished, unstarted

    def _distrust(self, processor: ProcessorState, reason: str) -> None:
        """Believe nothing more that it says, and end it."""
        processor.distrusted = reason
        if not processor.is_doomed:
            self._stopping.kill(processor, reason)

    @handles(ProcessorDown)
    def _processor_down(self, down: ProcessorDown) -> None:
        self._link.send(ExecutorProcessGone(down.number))
        processor = self._processors.leave(down.number)
        if processor is None:
            return
        if not processor.is_extra:
            self._processors.asked += 1  # the pool starts the next one by itself
        is_blameless = processor.is_doomed and not processor.distrusted
        executed = None if is_blameless else processor.task_at(down.executing)
        reason = f"was killed: {processor.distrusted}" if processor.distrusted else down.reason
        again: list[RunTask] = []
        for task in (entry.task for entry in processor.held if entry is not None):
            end = processor.unwanted.get(run_of(task))
            if end is not None:
                self._end([task], end)
            elif task is executed:
                text = f"the processor of worker {self.name} {reason}"
                self._end([task], End(TaskStatus.PROCESSOR_DIED, text))
            else:
                again.append(task)
        self._queue.put_back(again)
        self._hand_out()

    # Tasks that wait for others

    @handles(TaskBlocks)
    def _task_waits(self, waits: TaskBlocks) -> None:
        processor = self._processors.get(waits.number)
        task = processor.executed_task(waits.task) if processor is not None else None
        if processor is None or task is None or processor.is_doomed:
            return
        self._processors.suspend(processor, task)
        self._suspension.begin(processor, waits.wait, waits.timeout_seconds)
        self._link.send(Batch[RunBlocked]([RunBlocked(task.task_id, task.worker, task.attempt)]))
        if len(processor.held) > 1:
            self._recall.withhold(processor, waits.task)
            if waits.is_stuck:  # it starts nothing else before it may go on
                self._recall_due(RecallDue(processor.number, waits.task, processor.results_seen))
        processor.held_us = inf
        self._hand_out()
        self._reserve.fill()

    @handles(TaskAsks)
    def _task_asks(self, asks: TaskAsks) -> None:
        processor = self._processors.get(asks.number)
        if (
            processor is None
            or processor.waiting is None
            or processor.executed_task(asks.task) is not processor.waiting
        ):
            return
        self._suspension.end(processor)
        if processor.unwanted:
            self._let_loose(processor)  # it goes on only to end
        else:
            self._processors.ask(processor)
            self._hand_out()

    @handles(TaskUnblocks)
    def _task_goes_on(self, goes_on: TaskUnblocks) -> None:
        processor = self._processors.get(goes_on.number)
        if (
            processor is None
            or processor.waiting is None
            or processor.executed_task(goes_on.task) is not processor.waiting
        ):
            return
        self._say_resumed(processor)
        active = self._processors.active
        if active is None or not active.held:
            self._processors.activate(processor)
        else:
            self._processors.let_loose(processor)

    def _permit(self, processor: ProcessorState) -> None:
        """Let a task go on that asked for it: nobody else runs."""
        self._say_resumed(processor)
        self._processors.activate(processor)
        processor.proxy.send(ResumeProcessor(processor.number, processor.results_seen + 1))

    def _let_loose(self, processor: ProcessorState) -> None:
        """Let a task go on although others may run, because it shall end."""
        self._say_resumed(processor)
        self._processors.let_loose(processor)
        processor.proxy.send(ResumeProcessor(processor.number, processor.results_seen + 1))

    @handles(Batch[ProcessorNews])
    def _processors_news(self, batch: Batch[ProcessorNews]) -> None:
        for news in batch:
            processor = self._processors.get(news.processor)
            if processor is not None:
                self._suspension.hear(processor, news)

    @handles(BreathDue)
    def _breath_due(self, due: BreathDue) -> None:
        processor = self._processors.get(due.number)
        if processor is not None:
            self._suspension.breathe(processor, due)

    def _say_resumed(self, processor: ProcessorState) -> None:
        self._suspension.end(processor)
        if processor.waiting is None:
            return
        task, processor.waiting = processor.waiting, None
        if run_of(task) not in processor.unwanted:  # of one that goes on only to end, its end is the next news
            self._link.send(Batch[RunUnblocked]([RunUnblocked(task.task_id, task.worker, task.attempt)]))

    # Whose turn it is

    def _on_turn(self) -> ProcessorState | None:
        """Return the processor that gets the next tasks, if any may. Those that ask to go on are first."""
        processors = self._processors
        active = processors.active
        if processors.loose or (processors.asking and active is not None and active.held):
            return None  # what runs has to end first
        if processors.asking:
            self._permit(processors.next_to_go_on())
            return None
        if active is None:
            if processors.spare:
                processors.activate(processors.spare[-1])
            if processors.active is not None or self._queue.first_row():
                self._reserve.fill()
        return processors.active

    def _ask_for_processor(self) -> None:
        self._pool.send(AddProcessor(self._index))

    @handles(SpareCheck)
    def _spare_check(self, _check: SpareCheck) -> None:
        self._reserve.check()

    def _hand_out(self) -> None:
        processor = self._on_turn()
        if processor is None or processor.is_doomed or processor.unwanted:
            return
        portion = self._prefetch.take(processor)
        if portion:
            processor.proxy.send(HandTasks(processor.number, portion))
            self._time_limit.watch(processor)
            self._recall.watch(processor)

    # Tasks in a processor that end or come back before they are done

    def _do_without(self, processor: ProcessorState, runs: dict[RunKey, End]) -> None:
        """Have these runs end that the processor holds."""
        self._suspension.end(processor)
        self._stopping.stop(processor, runs)
        if processor in self._processors.asking:
            self._let_loose(processor)

    @handles(StopDue)
    def _stop_due(self, due: StopDue) -> None:
        processor = self._processors.get(due.number)
        if processor is not None:
            self._stopping.insist(processor, due)

    @handles(LimitDue)
    def _limit_due(self, due: LimitDue) -> None:
        processor = self._processors.get(due.number)
        overdue = self._time_limit.check(processor, due) if processor is not None else None
        if processor is not None and overdue:
            self._do_without(processor, overdue)

    @handles(StuckCheck)
    def _stuck_check(self, check: StuckCheck) -> None:
        processor = self._processors.get(check.number)
        if processor is not None:
            self._recall.check(processor, check)

    @handles(RecallDue)
    def _recall_due(self, due: RecallDue) -> None:
        processor = self._processors.get(due.number)
        if processor is None:
            return
        back: list[RunTask] = []
        for task in self._recall.recall(processor, due):
            end = processor.unwanted.pop(run_of(task), None)
            if end is None:
                back.append(task)
            else:
                self._end([task], end)
        if back:
            self._queue.put_back(back)
            logger.debug("%s: %d tasks taken back from behind a long one", self.name, len(back))

    def _end(self, tasks: list[RunTask], end: End, where: bytes = b"", profile: bytes = b"") -> None:
        """Answer for runs that have ended otherwise than by a result; `where` it was, if that is to be told."""
        if tasks:
            text = end.text.encode() + (b"\n" + where if end.text and where else b"")
            self._link.send(
                Batch[RunResult](
                    RunResult(task.task_id, task.worker, task.attempt, end.status, text, 0, (), profile)
                    for task in tasks
                )
            )
