"""Slot: the queue of one worker, and what its processors hold.

The link writes to it (tasks, cancels, wishes to have tasks back), the object cache (objects), and the processors
(coming, up, results, waits, down). It sends tasks and objects to a processor, results to the link, and asks the object
cache for what tasks need and the pool for more processors.

    link --RunTasks--> queue --HandTasks--> held by a processor --TasksFinished--> link
                         ^                          |
                         +---- taken back ----------+

A processor gets a few milliseconds of work at a time (`portions.py`), and only tasks whose objects it has
(`supplies.py`). When that was too much, because a task takes longer than all those before it, the tasks behind it are
taken back (`taking_back.py`). How a task ends that a processor holds and that is cancelled, is in `stopping.py`; one
that runs for longer than it may (`time_limit.py`) ends so too.

A worker runs one task at a time. One whose task waits for other tasks has further processors (`crew.py`, `reserve.py`),
and the scheduler is told, which may send other tasks meanwhile. When its process is stopped, is in `suspension.py`.

These rooms know of one processor at a time. Here is what concerns several: the queue, whose turn it is, the answers.

Must never: decode a payload, or answer a task twice.
"""

from __future__ import annotations

import logging
from math import inf

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.ids import ObjectId
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import (
    BalanceRequests,
    BalanceResponse,
    BalanceResponses,
    ProcessorsNews,
    RunCancels,
    RunResult,
    RunResults,
    RunResumed,
    RunsResumed,
    RunsSuspended,
    RunSuspended,
    RunTask,
    RunTasks,
)
from scaler.worker.crew import Crew, End, Work
from scaler.worker.messages import (
    AddProcessor,
    CollectionDue,
    ForgetObjects,
    HandTasks,
    NeedObject,
    ObjectFound,
    ObjectLost,
    ProcessorComing,
    ProcessorDown,
    ProcessorNotComing,
    ProcessorStays,
    ProcessorUp,
    ResumeProcessor,
    TaskAsks,
    TaskGoesOn,
    TasksFinished,
    TaskWaits,
)
from scaler.worker.portions import Portions
from scaler.worker.reserve import Reserve, SpareCheck
from scaler.worker.stopping import STOPPED, StopDue, Stopping
from scaler.worker.supplies import Supplies
from scaler.worker.suspension import BreathDue, Suspension
from scaler.worker.taking_back import StuckCheck, TakeBackDue, TakingBack
from scaler.worker.task_queue import Run, TaskQueue, run_of
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
        self._crew = Crew()
        self._queue = TaskQueue()
        self._supplies = Supplies(self._ask_for_object)
        self._portions = Portions(self._queue, self._supplies)
        self._reserve = Reserve(self._crew, self._ask_for_processor, self.schedule)
        self._taking_back = TakingBack(self.schedule)
        self._stopping = Stopping(self.now, self.schedule, self._taking_back.withhold)
        self._time_limit = TimeLimit(limit_seconds, name, self.now, self.schedule)
        self._suspension = Suspension(self.now, self.schedule)

    # From the link

    @handles(RunTasks)
    def _run_tasks(self, tasks: RunTasks) -> None:
        self._queue.add(tasks)
        self._hand_out()

    @handles(RunCancels)
    def _cancel(self, cancels: RunCancels) -> None:
        wanted = set(map(run_of, cancels))
        self._end(self._queue.take_out(wanted), _CANCELED)
        for work in list(self._crew):
            held = work.runs() & wanted
            if held:
                self._do_without(work, dict.fromkeys(held, _CANCELED))

    @handles(BalanceRequests)
    def _give_back(self, requests: BalanceRequests) -> None:
        """Part with the tasks that only wait here; what the processor has stays."""
        taken = self._queue.take_out(set(map(run_of, requests)))
        if taken:
            self._link.send(
                BalanceResponses(BalanceResponse(task.task_id, task.worker, task.attempt) for task in taken)
            )

    # From the object cache

    @handles(ObjectFound)
    def _object_found(self, found: ObjectFound) -> None:
        self._supplies.found(found.stored, self._crew.active)
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
        self._portions.forget(forget.object_ids)
        for work in self._crew:
            self._supplies.drop(work, forget.object_ids)

    @handles(CollectionDue)
    def _collection_due(self, _due: CollectionDue) -> None:
        for work in self._crew:
            self._supplies.clean(work)

    def _ask_for_object(self, object_id: ObjectId) -> None:
        self._objects.send(NeedObject(object_id, self.actor_ref))

    # From the processor

    @handles(ProcessorComing)
    def _processor_coming(self, coming: ProcessorComing) -> None:
        self._crew.asked = max(0, self._crew.asked - 1) if coming.is_extra else 0
        self._crew.coming.add(coming.number)

    @handles(ProcessorNotComing)
    def _processor_not_coming(self, not_coming: ProcessorNotComing) -> None:
        self._crew.coming.discard(not_coming.number)
        self._hand_out()

    @handles(ProcessorUp)
    def _processor_up(self, up: ProcessorUp) -> None:
        work = Work(up.number, up.processor, up.progress, up.is_extra)
        self._crew.join(work)
        if self._crew.active is None:
            self._crew.activate(work)
        self._supplies.start_again()
        self._queue.bring_back()
        self._hand_out()

    @handles(ProcessorStays)
    def _processor_stays(self, stays: ProcessorStays) -> None:
        """It was to end, and cannot: a client in it has open tasks."""
        work = self._crew.get(stays.number)
        if work is not None:
            self._crew.put_back(work)
            self._hand_out()

    @handles(TasksFinished)
    def _tasks_finished(self, news: TasksFinished) -> None:
        work = self._crew.get(news.number)
        if work is None:
            return
        results = news.results
        if len(results) > len(work.held):  # a task has written to the channel itself
            self._stopping.kill(work, "it gave more results than it had tasks")
            return
        finished, unstarted = self._take_results(work, results)
        if not work.held:
            work.held_us = 0.0  # sums of floats drift
            self._crew.put_back(work)
            self._reserve.watch()
        self._queue.put_back(unstarted)
        if finished:
            self._link.send(finished)
        self._hand_out()

    def _take_results(self, work: Work, results: RunResults) -> tuple[RunResults, list[RunTask]]:
        """Return the results that go to the scheduler, and the tasks that were not started and shall be."""
        learn = self._portions.learn
        finished = RunResults()
        unstarted: list[RunTask] = []
        work.results_seen += len(results)
        for result in results:
            entry = work.held.popleft()
            if entry is None:
                continue  # taken back long ago
            work.held_us -= entry.expected_us
            end = work.unwanted.pop(run_of(entry.task), None) if work.unwanted else None
            if result.status == STOPPED and end is not None:
                self._end([entry.task], end, result.payload, result.profile)
            elif result.status == STOPPED:
                unstarted.append(entry.task)
            else:
                learn(entry.task.function_id, result.duration_us)
                finished.append(result)
        return finished, unstarted

    @handles(ProcessorDown)
    def _processor_down(self, down: ProcessorDown) -> None:
        self._link.send(down)
        work = self._crew.leave(down.number)
        if work is None:
            return
        if not work.is_extra:
            self._crew.asked += 1  # the pool starts the next one by itself
        executed = None if work.is_doomed else work.task_at(down.executing)
        again: list[RunTask] = []
        for task in (entry.task for entry in work.held if entry is not None):
            end = work.unwanted.get(run_of(task))
            if end is not None:
                self._end([task], end)
            elif task is executed:
                text = f"the processor of worker {self.name} {down.reason}"
                self._end([task], End(TaskStatus.PROCESSOR_DIED, text))
            else:
                again.append(task)
        self._queue.put_back(again)
        self._hand_out()

    # Tasks that wait for others

    @handles(TaskWaits)
    def _task_waits(self, waits: TaskWaits) -> None:
        work = self._crew.get(waits.number)
        task = work.executed_task(waits.task) if work is not None else None
        if work is None or task is None or work.is_doomed:
            return
        self._crew.suspend(work, task)
        self._suspension.begin(work, waits.wait, waits.timeout_seconds)
        self._link.send(RunsSuspended([RunSuspended(task.task_id, task.worker, task.attempt)]))
        if len(work.held) > 1:
            self._taking_back.withhold(work, waits.task)
            if waits.is_stuck:  # it starts nothing else before it may go on
                self._take_back(TakeBackDue(work.number, waits.task, work.results_seen))
        work.held_us = inf
        self._hand_out()
        self._reserve.fill()

    @handles(TaskAsks)
    def _task_asks(self, asks: TaskAsks) -> None:
        work = self._crew.get(asks.number)
        if work is None or work.waiting is None or work.executed_task(asks.task) is not work.waiting:
            return
        self._suspension.end(work)
        if work.unwanted:
            self._let_loose(work)  # it goes on only to end
        else:
            self._crew.ask(work)
            self._hand_out()

    @handles(TaskGoesOn)
    def _task_goes_on(self, goes_on: TaskGoesOn) -> None:
        work = self._crew.get(goes_on.number)
        if work is None or work.waiting is None or work.executed_task(goes_on.task) is not work.waiting:
            return
        self._say_resumed(work)
        active = self._crew.active
        if active is None or not active.held:
            self._crew.activate(work)
        else:
            self._crew.let_loose(work)

    def _permit(self, work: Work) -> None:
        """Let a task go on that asked for it: nobody else runs."""
        self._say_resumed(work)
        self._crew.activate(work)
        work.processor.send(ResumeProcessor(work.number, work.results_seen + 1))

    def _let_loose(self, work: Work) -> None:
        """Let a task go on although others may run, because it shall end."""
        self._say_resumed(work)
        self._crew.let_loose(work)
        work.processor.send(ResumeProcessor(work.number, work.results_seen + 1))

    @handles(ProcessorsNews)
    def _processors_news(self, batch: ProcessorsNews) -> None:
        for news in batch:
            work = self._crew.get(news.processor)
            if work is not None:
                self._suspension.hear(work, news)

    @handles(BreathDue)
    def _breath_due(self, due: BreathDue) -> None:
        work = self._crew.get(due.number)
        if work is not None:
            self._suspension.breathe(work, due)

    def _say_resumed(self, work: Work) -> None:
        self._suspension.end(work)
        if work.waiting is None:
            return
        task, work.waiting = work.waiting, None
        if run_of(task) not in work.unwanted:  # of one that goes on only to end, its end is the next news
            self._link.send(RunsResumed([RunResumed(task.task_id, task.worker, task.attempt)]))

    # Whose turn it is

    def _on_turn(self) -> Work | None:
        """Return the processor that gets the next tasks, if any may. Those that ask to go on are first."""
        crew = self._crew
        active = crew.active
        if crew.loose or (crew.asking and active is not None and active.held):
            return None  # what runs has to end first
        if crew.asking:
            self._permit(crew.next_to_go_on())
            return None
        if active is None:
            if crew.spare:
                crew.activate(crew.spare[-1])
            if crew.active is not None or self._queue.first_row():
                self._reserve.fill()
        return crew.active

    def _ask_for_processor(self) -> None:
        self._pool.send(AddProcessor(self._index))

    @handles(SpareCheck)
    def _spare_check(self, _check: SpareCheck) -> None:
        self._reserve.check()

    def _hand_out(self) -> None:
        work = self._on_turn()
        if work is None or work.is_doomed or work.unwanted:
            return
        portion = self._portions.take(work)
        if portion:
            work.processor.send(HandTasks(work.number, portion))
            self._time_limit.watch(work)
            self._taking_back.watch(work)

    # Tasks in a processor that end or come back before they are done

    def _do_without(self, work: Work, runs: dict[Run, End]) -> None:
        """Have these runs end that the processor holds."""
        self._suspension.end(work)
        self._stopping.stop(work, runs)
        if work in self._crew.asking:
            self._let_loose(work)

    @handles(StopDue)
    def _stop_due(self, due: StopDue) -> None:
        work = self._crew.get(due.number)
        if work is not None:
            self._stopping.insist(work, due)

    @handles(LimitDue)
    def _limit_due(self, due: LimitDue) -> None:
        work = self._crew.get(due.number)
        overdue = self._time_limit.check(work, due) if work is not None else None
        if work is not None and overdue:
            self._do_without(work, overdue)

    @handles(StuckCheck)
    def _stuck_check(self, check: StuckCheck) -> None:
        work = self._crew.get(check.number)
        if work is not None:
            self._taking_back.check(work, check)

    @handles(TakeBackDue)
    def _take_back(self, due: TakeBackDue) -> None:
        work = self._crew.get(due.number)
        if work is None:
            return
        back: list[RunTask] = []
        for task in self._taking_back.take_back(work, due):
            end = work.unwanted.pop(run_of(task), None)
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
                RunResults(
                    RunResult(task.task_id, task.worker, task.attempt, end.status, text, 0, (), profile)
                    for task in tasks
                )
            )
