"""Slot: the queue of one worker, and what its processor holds.

The link writes to it (tasks, cancels, wishes to have tasks back), the object cache (objects), and the processor (up,
results, down). It sends tasks and objects to the processor, results to the link, and asks the object cache for what
tasks need.

    link --RunTasks--> queue --HandTasks--> held by the processor --RunResults--> link
                         ^                          |
                         +---- taken back ----------+

What a processor holds cannot be stolen, so it gets a few milliseconds of work, by what the function took so far. When
that was wrong, because a task takes longer than all those before it, the tasks behind it are taken back (see
`progress.py`).

A task that is cancelled in the processor is interrupted if it is executed, else kept from being started. The processor
goes on with the others. If the task has not ended after some time, because it is deep in C code, holds on to its
`finally`, or catches everything, its processor is killed and another one goes on. A task that runs for longer than it
may is ended in the same way.

Must never: decode a payload, or answer a task twice.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.ids import ObjectId, TaskId, split_ids
from scaler.message import message
from scaler.wire.messages import (
    BalanceRequests,
    BalanceResponse,
    BalanceResponses,
    RunCancels,
    RunResult,
    RunResults,
    RunTask,
    RunTasks,
    TaskStatus,
)
from scaler.worker.messages import (
    CleanProcessor,
    CollectionDue,
    DropObjects,
    ForgetObjects,
    HandObject,
    HandTasks,
    InterruptProcessor,
    KillProcessor,
    NeedObject,
    ObjectFound,
    ObjectLost,
    ProcessorDown,
    ProcessorUp,
)
from scaler.worker.progress import Progress
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
INSIST_SECONDS = 0.02
"""How often the processor is asked again to interrupt a task, until it has, and its page looked at."""


@message
class _StuckCheck:
    results_seen: int


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


class _End(NamedTuple):
    """What becomes of a run that shall end."""

    status: TaskStatus
    text: str = ""


_CANCELED = _End(TaskStatus.CANCELED)


class _Held(NamedTuple):
    task: RunTask
    expected_us: float


@dataclass
class _Work:
    """What exists only while there is a processor."""

    number: int
    processor: ActorRef
    progress: Progress
    held: deque[_Held | None] = field(default_factory=deque)
    """in the order in which they were handed, which is the order of the results; None: taken back"""
    held_us: float = 0.0
    results_seen: int = 0
    has: set[ObjectId] = field(default_factory=set)
    used: set[ObjectId] = field(default_factory=set)
    """of these, what tasks needed that were handed since the last collection"""
    results_collected: int = 0
    """how many results had been seen at the last collection"""
    unwanted: dict[tuple[TaskId, int], _End] = field(default_factory=dict)
    """runs among the held ones that shall end: they are answered when they have"""
    interrupted: int = 0
    """the number of the last task that was to be interrupted"""
    kill_at: float = 0.0
    is_insisting: bool = False
    """a `_StopDue` is on its way"""
    is_timing: bool = False
    """a `_LimitDue` is"""
    is_doomed: bool = False
    """killed, and not dead yet"""


class Slot(Actor):
    """One worker of a node."""

    def __init__(self, name: str, link: ActorRef, objects: ActorRef, limit_seconds: float = 0) -> None:
        self.name = name
        self._limit_seconds = limit_seconds
        """how long a task may run; 0: as long as it likes"""
        self._link = link
        self._objects = objects
        self._queue = TaskQueue()
        self._expected_us: dict[ObjectId, float] = {}
        self._awaited: set[ObjectId] = set()
        self._work: _Work | None = None
        self._is_watching = False

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
        work = self._work
        if work is None:
            return
        held = {(entry.task.task_id, entry.task.attempt) for entry in work.held if entry is not None} & wanted
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
        work = self._work
        if work is not None and object_id not in work.has:
            work.has.add(object_id)
            work.processor.send(HandObject(work.number, found.stored))
        self._queue.bring_back()
        self._hand_out()

    @handles(ObjectLost)
    def _object_lost(self, lost: ObjectLost) -> None:
        """Fail all tasks that wait for it: they were all sent before the scheduler said that it does not have it."""
        self._awaited.discard(lost.object_id)
        failed = self._queue.take_out(lambda task: lost.object_id in _needs(task))
        if failed:
            text = f"object {lost.object_id.hex()} that the task needs is not stored any more"
            self._give(failed, TaskStatus.MISSING_OBJECTS, text)
        self._queue.bring_back()
        self._hand_out()

    @handles(ForgetObjects)
    def _forget_objects(self, forget: ForgetObjects) -> None:
        for object_id in forget.object_ids:
            self._expected_us.pop(object_id, None)
        work = self._work
        if work is not None:
            self._drop(work, work.has.intersection(forget.object_ids))

    @handles(CollectionDue)
    def _collection_due(self, _due: CollectionDue) -> None:
        """Drop what no task needed since the last time. A processor that did nothing since then is left alone."""
        work = self._work
        if work is None:
            return
        unused = work.has - work.used
        if not unused and work.results_seen == work.results_collected:
            return
        self._drop(work, unused)
        work.processor.send(CleanProcessor(work.number))
        work.results_collected = work.results_seen
        work.used = {object_id for entry in work.held if entry is not None for object_id in _needs(entry.task)}

    def _drop(self, work: _Work, object_ids: set[ObjectId]) -> None:
        """Have the processor forget objects, after the tasks that it was handed."""
        if object_ids:
            work.has -= object_ids
            work.used -= object_ids
            work.processor.send(DropObjects(work.number, tuple(object_ids)))

    # From the processor

    @handles(ProcessorUp)
    def _processor_up(self, up: ProcessorUp) -> None:
        self._work = _Work(up.number, up.processor, up.progress)
        self._awaited.clear()
        self._queue.bring_back()
        self._hand_out()

    @handles(RunResults)
    def _results(self, results: RunResults) -> None:
        work = self._work
        if work is None:
            return
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
        work = self._work
        if work is None or work.number != down.number:
            return
        self._work = None
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

    # Handing out

    def _hand_out(self) -> None:
        work = self._work
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
            if len(held) > 1 and not self._is_watching:
                self._is_watching = True
                self.schedule(STUCK_SECONDS, _StuckCheck(work.results_seen))

    def _take_chunk(self, work: _Work) -> list[RunTask]:
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
            held.append(_Held(task, expected_us))
            work.held_us += expected_us
            chunk.append(task)
        return chunk

    def _has_objects(self, work: _Work, task: RunTask) -> bool:
        """Return whether the processor has all that the task needs; if not, ask for the rest."""
        needs = _needs(task)
        missing = [object_id for object_id in needs if object_id not in work.has]
        for object_id in missing:
            if object_id not in self._awaited:
                self._awaited.add(object_id)
                self._objects.send(NeedObject(object_id, self.actor_ref))
        if missing:
            return False
        work.used.update(needs)
        return True

    def _give(self, tasks: list[RunTask], status: TaskStatus, text: str = "") -> None:
        payload = text.encode()
        self._link.send(
            RunResults(RunResult(task.task_id, task.worker, task.attempt, status, payload, 0, ()) for task in tasks)
        )

    # Stopping

    def _do_without(self, work: _Work, runs: dict[tuple[TaskId, int], _End]) -> None:
        """Have these runs end that the processor holds."""
        work.unwanted = runs | work.unwanted
        if work.is_doomed:
            return
        self._stop_unwanted(work)
        if not work.is_insisting:
            work.is_insisting = True
            self.schedule(INSIST_SECONDS, _StopDue(work.number))

    @handles(_StopDue)
    def _stop_due(self, due: _StopDue) -> None:
        work = self._work
        if work is None or work.number != due.number or work.is_doomed:
            return
        if not work.unwanted:
            work.is_insisting = False
            return
        self._stop_unwanted(work)
        self.schedule(INSIST_SECONDS, due)

    def _stop_unwanted(self, work: _Work) -> None:
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

    def _interrupt(self, work: _Work, executing: int) -> None:
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
        work = self._work
        if work is None or work.number != due.number or work.is_doomed:
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

    def _time_out(self, work: _Work, executing: int, ran_seconds: float) -> None:
        index = executing - work.results_seen - 1
        entry = work.held[index] if 0 <= index < len(work.held) else None
        if entry is not None and (entry.task.task_id, entry.task.attempt) not in work.unwanted:
            text = (
                f"it ran for {ran_seconds:.3g} s on worker {self.name}, where no task may run for longer than "
                f"{self._limit_seconds:g} s (task_timeout_seconds)"
            )
            end = _End(TaskStatus.TIMED_OUT, text)
            self._do_without(work, {(entry.task.task_id, entry.task.attempt): end})

    def _kill(self, work: _Work, reason: str) -> None:
        work.is_doomed = True
        work.processor.send(KillProcessor(work.number, reason))

    def _end(self, task: RunTask, end: _End, where: bytes = b"", profile: bytes = b"") -> None:
        """Answer for a run that has ended as it should; `where` it was, if it is to be told."""
        text = end.text.encode() + (b"\n" + where if end.text and where else b"")
        result = RunResult(task.task_id, task.worker, task.attempt, end.status, text, 0, (), profile)
        self._link.send(RunResults([result]))

    # Taking back

    @handles(_StuckCheck)
    def _stuck_check(self, check: _StuckCheck) -> None:
        self._is_watching = False
        work = self._work
        if work is None or len(work.held) <= 1:
            return
        executing = work.progress.executing
        is_stuck = work.results_seen == check.results_seen and work.results_seen < executing
        if is_stuck and executing > work.progress.withheld_to:
            self._withhold(work, executing)
        else:
            self._is_watching = True
            self.schedule(STUCK_SECONDS, _StuckCheck(work.results_seen))

    def _withhold(self, work: _Work, executing: int) -> None:
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
        work = self._work
        if work is None or work.number != due.number or work.is_doomed:
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
