"""Slot: the queue of one worker, and what its processors hold.

The link writes to it (tasks, cancels, wishes to have tasks back), the object cache (objects), and the processors
(coming, up, results, waits, down). It sends tasks and objects to a processor, results to the link, and asks the object
cache for what tasks need and the pool for more processors.

    link --RunTasks--> queue --HandTasks--> held by a processor --TasksFinished--> link
                         ^                          |
                         +---- taken back ----------+

What a processor holds cannot be stolen, so it gets a few milliseconds of work, by what the function took so far. When
that was wrong, because a task takes longer than all those before it, the tasks behind it are taken back (see
`progress.py`).

A task that is cancelled in the processor is interrupted if it is executed, else kept from being started. The processor
goes on with the others. If the task has not ended after some time, because it is deep in C code, holds on to its
`finally`, or catches everything, its processor is killed and another one goes on. A task that runs for longer than it
may is ended in the same way.

A worker runs one task at a time. One whose task waits for other tasks has further processors (see `crew.py`), and the
scheduler is told, which may send other tasks meanwhile. When its process is stopped, is in `suspension.py`.

Must never: decode a payload, or answer a task twice.
"""

from __future__ import annotations

import logging

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.ids import ObjectId, TaskId, split_ids
from scaler.message import message
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
from scaler.worker.crew import Crew, End, Held, Work
from scaler.worker.messages import (
    AddProcessor,
    CleanProcessor,
    CollectionDue,
    DismissProcessor,
    DropObjects,
    ForgetObjects,
    HandObject,
    HandTasks,
    InterruptProcessor,
    KillProcessor,
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
from scaler.worker.suspension import BreathDue, Suspension
from scaler.worker.task_queue import TaskQueue

logger = logging.getLogger(__name__)

HELD_US = 6_000.0
"""The most work that a processor holds, unless one task alone is more; refilled when half of it is done."""
HELD_TASKS = 512
CHUNK_BYTES = 1024 * 1024
"""The most bytes of arguments in one message to the processor, unless one task alone has more."""
OVERHEAD_US = 5.0
"""What a task takes in the processor besides the call itself."""
STUCK_SECONDS = 0.01
"""When a processor with several tasks finished none for so long, the others are taken back."""
SETTLE_SECONDS = 0.003
"""How long the processor has to notice that tasks are withheld; a few memory writes, so this is very long."""
AWAITED_OBJECTS = 4
"""How many objects are asked for before the tasks that need them are waited for. Those behind go on meanwhile, since an
object may be long on its way; but each takes memory when it is there."""
FUNCTIONS_REMEMBERED = 10_000
STOPPED = TaskStatus.CANCELED
"""What a processor answers for a task that it was told not to start, or that was interrupted; never anything else."""
GRACE_SECONDS = 1.0
"""How long a task that was interrupted has to end before its processor is killed."""
SPARE_KEPT = 2
"""How many processors more than the usual one stay, once tasks have waited for others."""
SPARE_SECONDS = 5.0
"""A processor more than that ends when it had nothing to do for so long."""
INSIST_SECONDS = 0.02
"""How often the processor is asked again to interrupt a task, until it has, and its page looked at."""


@message
class _StuckCheck:
    number: int
    results_seen: int


@message
class _SpareCheck:
    """Is somebody still needed who had nothing to do for some time?"""


@message
class _StopDue:
    number: int


@message
class _LimitDue:
    number: int


@message
class _TakeBackDue:
    number: int
    executing: int
    results_seen: int


_CANCELED = End(TaskStatus.CANCELED)


class Slot(Actor):
    """One worker of a node."""

    def __init__(
        self, name: str, index: int, link: ActorRef, objects: ActorRef, pool: ActorRef, limit_seconds: float = 0
    ) -> None:
        self.name = name
        self._index = index
        self._limit_seconds = limit_seconds
        """how long a task may run, its waits for other tasks included; 0: as long as it likes"""
        self._link = link
        self._objects = objects
        self._pool = pool
        self._crew = Crew()
        self._queue = TaskQueue()
        self._expected_us: dict[ObjectId, float] = {}
        self._awaited: set[ObjectId] = set()
        self._doubted: dict[ObjectId, set[tuple[TaskId, int]]] = {}
        """objects that were lost once and asked for again, and the runs that waited for them then"""
        self._is_counting_spare = False
        self._suspension = Suspension(self.now, self.schedule)

    # From the link

    @handles(RunTasks)
    def _run_tasks(self, tasks: RunTasks) -> None:
        self._queue.add(tasks)
        self._hand_out()

    @handles(RunCancels)
    def _cancel(self, cancels: RunCancels) -> None:
        wanted = {(cancel.task_id, cancel.attempt) for cancel in cancels}
        queued = self._queue.take_out(lambda task: (task.task_id, task.attempt) in wanted)
        if queued:
            self._give(queued, TaskStatus.CANCELED)
        for work in list(self._crew):
            held = work.runs() & wanted
            if held:
                self._do_without(work, dict.fromkeys(held, _CANCELED))

    @handles(BalanceRequests)
    def _give_back(self, requests: BalanceRequests) -> None:
        """Part with the tasks that only wait here; what the processor has stays."""
        wanted = {(request.task_id, request.attempt) for request in requests}
        taken = self._queue.take_out(lambda task: (task.task_id, task.attempt) in wanted)
        if taken:
            self._link.send(
                BalanceResponses(BalanceResponse(task.task_id, task.worker, task.attempt) for task in taken)
            )

    # From the object cache

    @handles(ObjectFound)
    def _object_found(self, found: ObjectFound) -> None:
        object_id = found.stored.object_id
        self._awaited.discard(object_id)
        self._doubted.pop(object_id, None)
        work = self._crew.active
        if work is not None and object_id not in work.has:
            work.has.add(object_id)
            work.processor.send(HandObject(work.number, found.stored))
        self._queue.bring_back()
        self._hand_out()

    @handles(ObjectLost)
    def _object_lost(self, lost: ObjectLost) -> None:
        """Ask once more, then fail the tasks that waited for it at that time.

        Not at once: the last client that had it may have left just before another one sent it, with a task that came
        here between the question and its answer. When it is asked for again, that is known.
        """
        object_id = lost.object_id
        self._awaited.discard(object_id)
        doubted = self._doubted.pop(object_id, None)
        if doubted is None:
            doubted = {(task.task_id, task.attempt) for task in self._queue if object_id in _needs(task)}
            if doubted:
                self._doubted[object_id] = doubted
                self._ask_for(object_id)
        else:
            failed = self._queue.take_out(lambda task: (task.task_id, task.attempt) in doubted)
            if failed:
                text = f"object {object_id.hex()} that the task needs is not stored any more"
                self._give(failed, TaskStatus.MISSING_OBJECTS, text)
        self._queue.bring_back()
        self._hand_out()

    @handles(ForgetObjects)
    def _forget_objects(self, forget: ForgetObjects) -> None:
        for object_id in forget.object_ids:
            self._expected_us.pop(object_id, None)
        for work in self._crew:
            self._drop(work, work.has.intersection(forget.object_ids))

    @handles(CollectionDue)
    def _collection_due(self, _due: CollectionDue) -> None:
        """Drop what no task needed since the last time. A processor that did nothing since then is left alone."""
        for work in self._crew:
            self._clean(work)

    def _clean(self, work: Work) -> None:
        unused = work.has - work.used
        if not unused and work.results_seen == work.results_collected:
            return
        self._drop(work, unused)
        work.processor.send(CleanProcessor(work.number))
        work.results_collected = work.results_seen
        held = (entry.task for entry in work.held if entry is not None)
        # Of a task that is held something may have been deleted: that is not there for the next one.
        work.used = work.has.intersection(object_id for task in held for object_id in _needs(task))

    def _drop(self, work: Work, object_ids: set[ObjectId]) -> None:
        """Have the processor forget objects, after the tasks that it was handed."""
        if object_ids:
            work.has -= object_ids
            work.used -= object_ids
            work.processor.send(DropObjects(work.number, tuple(object_ids)))

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
        self._awaited.clear()
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
        if len(results) > len(work.held):
            self._kill(work, "it gave more results than it had tasks")  # a task has written to the channel itself
            return
        work.results_seen += len(results)
        finished = RunResults()
        unstarted: list[RunTask] = []
        for result in results:
            entry = work.held.popleft()
            if entry is None:
                continue  # taken back long ago
            work.held_us -= entry.expected_us
            end = work.unwanted.pop((result.task_id, result.attempt), None) if work.unwanted else None
            if result.status == STOPPED and end is not None:
                self._end(entry.task, end, result.payload, result.profile)
            elif result.status == STOPPED:
                unstarted.append(entry.task)
            else:
                self._learn(entry.task.function_id, result.duration_us + OVERHEAD_US)
                finished.append(result)
        if not work.held:
            work.held_us = 0.0  # sums of floats drift
            self._crew.put_back(work)
            self._count_spare()
        self._queue.put_back(unstarted)
        if finished:
            self._link.send(finished)
        self._hand_out()

    def _learn(self, function_id: ObjectId, duration_us: float) -> None:
        """Up fast and down slowly: too little work in hand costs less than too much."""
        known = self._expected_us
        before = known.get(function_id)
        if before is None:
            if len(known) >= FUNCTIONS_REMEMBERED:
                known.clear()
            known[function_id] = duration_us
        else:
            known[function_id] = before + (duration_us - before) * (0.5 if duration_us > before else 0.1)

    @handles(ProcessorDown)
    def _processor_down(self, down: ProcessorDown) -> None:
        self._link.send(down)
        work = self._crew.leave(down.number)
        if work is None:
            return
        if not work.is_extra:
            self._crew.asked += 1  # the pool starts the next one by itself
        executing = down.executing - work.results_seen - 1
        again: list[RunTask] = []
        for index, entry in enumerate(work.held):
            if entry is None:
                continue
            task = entry.task
            end = work.unwanted.get((task.task_id, task.attempt))
            if end is not None:
                self._end(task, end)
            elif index == executing and not work.is_doomed:
                self._give([task], TaskStatus.PROCESSOR_DIED, f"the processor of worker {self.name} {down.reason}")
            else:
                again.append(task)
        self._queue.put_back(again)
        self._hand_out()

    # Tasks that wait for others

    @handles(TaskWaits)
    def _task_waits(self, waits: TaskWaits) -> None:
        work = self._crew.get(waits.number)
        task = work.held_task(waits.task) if work is not None else None
        if work is None or task is None or work.is_doomed:
            return
        self._crew.suspend(work, task)
        self._suspension.begin(work, waits.wait, waits.timeout_seconds)
        self._link.send(RunsSuspended([RunSuspended(task.task_id, task.worker, task.attempt)]))
        if len(work.held) > 1:
            self._withhold(work, waits.task)
            if waits.is_stuck:  # it starts nothing else before it may go on
                self._take_back(_TakeBackDue(work.number, waits.task, work.results_seen))
        work.held_us = HELD_US  # nothing more until it has ended
        self._hand_out()
        self._keep_warm()

    @handles(TaskAsks)
    def _task_asks(self, asks: TaskAsks) -> None:
        work = self._crew.get(asks.number)
        if work is None or work.waiting is None or work.held_task(asks.task) is not work.waiting:
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
        if work is None or work.waiting is None or work.held_task(goes_on.task) is not work.waiting:
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
        # Of one that goes on only to end, its end is the next news. With another scheduler it would be worse than
        # needless: that may have a run that looks the same, and would take it for the one that goes on.
        if (task.task_id, task.attempt) not in work.unwanted:
            self._link.send(RunsResumed([RunResumed(task.task_id, task.worker, task.attempt)]))

    # Its processors

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
                self._keep_warm()
        return crew.active

    def _keep_warm(self) -> None:
        """Have some more processors than are needed: the next task to wait shall not wait for a fork as well."""
        crew = self._crew
        wanted = SPARE_KEPT if crew.has_waiting() else int(crew.active is None)
        for _ in range(wanted - crew.reserve()):
            crew.asked += 1
            self._pool.send(AddProcessor(self._index))

    @handles(_SpareCheck)
    def _spare_check(self, _check: _SpareCheck) -> None:
        """End those that had nothing to do since the last time, but for some."""
        self._is_counting_spare = False
        for work in self._crew.take_surplus(SPARE_KEPT):
            work.processor.send(DismissProcessor(work.number))
        self._count_spare()

    def _count_spare(self) -> None:
        if not self._is_counting_spare and self._crew.has_surplus(SPARE_KEPT):
            self._is_counting_spare = True
            self.schedule(SPARE_SECONDS, _SpareCheck())

    # Handing out

    def _hand_out(self) -> None:
        work = self._on_turn()
        if work is None or work.is_doomed or work.unwanted:
            return
        held = work.held
        if held and (work.held_us > HELD_US / 2 or len(held) > HELD_TASKS / 2):
            return
        chunk = self._take_chunk(work)
        if chunk:
            work.processor.send(HandTasks(work.number, chunk))
            if self._limit_seconds and not work.is_timing:
                work.is_timing = True
                self.schedule(self._limit_seconds, _LimitDue(work.number))
            if len(held) > 1 and not work.is_watched:
                work.is_watched = True
                self.schedule(STUCK_SECONDS, _StuckCheck(work.number, work.results_seen))

    def _take_chunk(self, work: Work) -> list[RunTask]:
        """Move tasks from the queue to what is held, as many as fit and as have their objects."""
        held, used, known = work.held, work.used, self._expected_us
        chunk: list[RunTask] = []
        room_bytes = CHUNK_BYTES
        row = self._queue.first_row()
        while row:
            task = row[0]
            expected_us = known.get(task.function_id, HELD_US)
            room_bytes -= len(task.payload)
            if held and (work.held_us + expected_us > HELD_US or len(held) >= HELD_TASKS or room_bytes < 0):
                break
            if (task.function_id not in used or task.object_ids) and not self._has_objects(work, task):
                if task.function_id not in work.has or len(self._awaited) > AWAITED_OBJECTS:
                    break  # a function comes at once, and nobody need be overtaken for that
                room_bytes += len(task.payload)
                self._queue.step_aside()
                row = self._queue.first_row()
                continue
            row.popleft()
            if not row:
                row = self._queue.first_row()
            held.append(Held(task, expected_us))
            work.held_us += expected_us
            chunk.append(task)
        return chunk

    def _has_objects(self, work: Work, task: RunTask) -> bool:
        """Return whether the processor has all that the task needs; if not, ask for the rest."""
        needs = _needs(task)
        missing = [object_id for object_id in needs if object_id not in work.has]
        for object_id in missing:
            if object_id not in self._awaited:
                self._ask_for(object_id)
        if missing:
            return False
        work.used.update(needs)
        return True

    def _ask_for(self, object_id: ObjectId) -> None:
        self._awaited.add(object_id)
        self._objects.send(NeedObject(object_id, self.actor_ref))

    def _give(self, tasks: list[RunTask], status: TaskStatus, text: str = "") -> None:
        payload = text.encode()
        self._link.send(
            RunResults(RunResult(task.task_id, task.worker, task.attempt, status, payload, 0, ()) for task in tasks)
        )

    # Stopping

    def _do_without(self, work: Work, runs: dict[tuple[TaskId, int], End]) -> None:
        """Have these runs end that the processor holds."""
        work.unwanted = runs | work.unwanted
        if work.is_doomed:
            return
        self._suspension.end(work)
        self._stop_unwanted(work)
        if work in self._crew.asking:
            self._let_loose(work)
        if not work.is_insisting:
            work.is_insisting = True
            self.schedule(INSIST_SECONDS, _StopDue(work.number))

    @handles(_StopDue)
    def _stop_due(self, due: _StopDue) -> None:
        work = self._crew.get(due.number)
        if work is None or work.is_doomed:
            return
        if not work.unwanted:
            work.is_insisting = False
            return
        self._stop_unwanted(work)
        self.schedule(INSIST_SECONDS, due)

    def _stop_unwanted(self, work: Work) -> None:
        """Interrupt the unwanted task that is executed, and keep those from being started that are not yet."""
        progress, unwanted = work.progress, work.unwanted
        executing = progress.executing
        numbers = [
            number
            for number, entry in enumerate(work.held, work.results_seen + 1)
            if entry is not None and (entry.task.task_id, entry.task.attempt) in unwanted
        ]
        if executing in numbers:
            self._interrupt(work, executing)
        if numbers and numbers[-1] > max(executing, progress.withheld_to):
            self._withhold(work, executing)

    def _interrupt(self, work: Work, executing: int) -> None:
        if work.interrupted != executing:
            work.interrupted = executing
            work.kill_at = self.now() + GRACE_SECONDS
            work.progress.interrupt(executing)
        elif self.now() >= work.kill_at:
            self._kill(work, f"a task has not ended {GRACE_SECONDS:g} s after it was interrupted")
            return
        if work.progress.is_interrupt_due:
            work.processor.send(InterruptProcessor(work.number))

    @handles(_LimitDue)
    def _limit_due(self, due: _LimitDue) -> None:
        """End the executing task if it has run for too long; look again when it will have, or the next one could."""
        work = self._crew.get(due.number)
        if work is None or work.is_doomed:
            return
        if not work.held:
            work.is_timing = False
            return
        limit_seconds, executing = self._limit_seconds, work.progress.executing
        ran_seconds = work.progress.ran_seconds(executing, self.now())
        if ran_seconds >= limit_seconds:
            self._time_out(work, executing, ran_seconds)
            ran_seconds = 0.0
        self.schedule(limit_seconds - ran_seconds, due)

    def _time_out(self, work: Work, executing: int, ran_seconds: float) -> None:
        index = executing - work.results_seen - 1
        entry = work.held[index] if 0 <= index < len(work.held) else None
        if entry is not None and (entry.task.task_id, entry.task.attempt) not in work.unwanted:
            text = (
                f"it ran for {ran_seconds:.3g} s on worker {self.name}, where no task may run for longer than "
                f"{self._limit_seconds:g} s (task_timeout_seconds)"
            )
            end = End(TaskStatus.TIMED_OUT, text)
            self._do_without(work, {(entry.task.task_id, entry.task.attempt): end})

    def _kill(self, work: Work, reason: str) -> None:
        work.is_doomed = True
        work.processor.send(KillProcessor(work.number, reason))

    def _end(self, task: RunTask, end: End, where: bytes = b"", profile: bytes = b"") -> None:
        """Answer for a run that has ended as it should; `where` it was, if it is to be told."""
        text = end.text.encode() + (b"\n" + where if end.text and where else b"")
        result = RunResult(task.task_id, task.worker, task.attempt, end.status, text, 0, (), profile)
        self._link.send(RunResults([result]))

    # Taking back

    @handles(_StuckCheck)
    def _stuck_check(self, check: _StuckCheck) -> None:
        work = self._crew.get(check.number)
        if work is None:
            return
        work.is_watched = False
        if work.waiting is not None or len(work.held) <= 1:
            return
        executing = work.progress.executing
        is_stuck = work.results_seen == check.results_seen and work.results_seen < executing
        if is_stuck and executing > work.progress.withheld_to:
            self._withhold(work, executing)
        else:
            work.is_watched = True
            self.schedule(STUCK_SECONDS, _StuckCheck(work.number, work.results_seen))

    def _withhold(self, work: Work, executing: int) -> None:
        """Have the processor start none of the tasks behind the executing one.

        Between two messages it executes none, and which it has behind it is known only when it answers for them.
        """
        results_seen = work.results_seen
        work.progress.withhold(after=max(executing, results_seen), to=results_seen + len(work.held))
        if executing:
            self.schedule(SETTLE_SECONDS, _TakeBackDue(work.number, executing, results_seen))

    @handles(_TakeBackDue)
    def _take_back(self, due: _TakeBackDue) -> None:
        """Take back the tasks behind the running one. If that just ended, the processor answers for each of them."""
        work = self._crew.get(due.number)
        if work is None or work.is_doomed:
            return
        if work.results_seen != due.results_seen or work.progress.executing != due.executing:
            return
        behind = due.executing - work.results_seen
        taken = list(work.held)[behind:]
        for index in range(behind, len(work.held)):
            work.held[index] = None
        work.held_us = HELD_US  # nothing more until the long one has ended
        back = []
        for task in (entry.task for entry in taken if entry is not None):
            end = work.unwanted.pop((task.task_id, task.attempt), None)
            if end is None:
                back.append(task)
            else:
                self._end(task, end)
        self._queue.put_back(back)
        logger.debug("%s: %d tasks taken back from behind a long one", self.name, len(back))


def _needs(task: RunTask) -> list[ObjectId]:
    """Return the ids of all objects that the task needs, its function first."""
    return [task.function_id, *(ObjectId(object_id) for object_id in split_ids(task.object_ids))]
