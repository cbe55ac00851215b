"""A slot between recorders, on a virtual clock, on which the rooms of a slot are tested."""

from __future__ import annotations

from math import inf

from scaler.executors.messages import CachedObject, NeedObject, ObjectFound
from scaler.executors.processes.messages import (
    ProcessorBlocked,
    ProcessorComing,
    ProcessorDown,
    ProcessorResumable,
    ProcessorUp,
    ResumeProcessor,
    SendTasks,
    TasksFinished,
)
from scaler.executors.processes.slot.slot import Slot
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.kit import Dispatcher
from scaler.processor.progress_page import ProgressPage
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack
from scaler.wire.messages.worker import (
    RecallRequest,
    RecallResponse,
    RunBlocked,
    RunCancel,
    RunResult,
    RunTask,
    RunUnblocked,
)
from tests.support.pages import new_page
from tests.support.recorder import Recorder
from tests.support.slot_audit import audit_slot
from tests.support.virtual_clock import VirtualClock

FUNCTION = ObjectId(b"f" * 16)
OTHER = ObjectId(b"g" * 16)


class SlotBench:
    """A slot between recorders, which is audited after each step."""

    def __init__(self, limit_seconds: float = 0, waiting_most: float = inf) -> None:
        self.clock = VirtualClock()
        self.dispatcher = Dispatcher(self.clock)
        self.link, self.objects, self.pool, self.processor = Recorder(), Recorder(), Recorder(), Recorder()
        link, objects, pool = map(self.dispatcher.spawn, (self.link, self.objects, self.pool))
        self.actor = Slot("w", 3, link, objects, pool, limit_seconds, waiting_most)
        self.slot = self.dispatcher.spawn(self.actor)
        self.processor_ref = self.dispatcher.spawn(self.processor)
        self.number = 0
        self.new_id = IdSource()

    def tell(self, message: object) -> None:
        self.slot.send(message)
        self._run_and_check()

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._run_and_check()

    def _run_and_check(self) -> None:
        assert self.dispatcher.run()
        assert self.dispatcher.failures == 0
        audit_slot(self.actor)

    def processor_up(self, is_extra: bool = False) -> None:
        self.new_page()
        self.tell(ProcessorComing(self.number, is_extra))
        self.tell(ProcessorUp(self.number, self.processor_ref, self.progress, is_extra))

    def new_page(self) -> None:
        """Take the next number for a processor, and make its page."""
        self.number += 1
        self.progress = new_page()

    def with_function(self, *functions: ObjectId) -> SlotBench:
        """Start a processor that has the functions, and return the bench."""
        self.processor_up()
        for function in functions or (FUNCTION,):
            self.tell(ObjectFound(CachedObject(function, [b"x"], None)))
        self.processor.messages.clear()
        return self

    def task(self, function: ObjectId = FUNCTION, object_ids: bytes = b"", priority: int = 0, rows: int = 0) -> RunTask:
        return RunTask(
            TaskId(self.new_id()), 0, 1, function, pack([b""] * rows), object_ids, priority, "", b"", 0, (), rows
        )

    def run(self, *tasks: RunTask) -> None:
        self.tell(Batch[RunTask](tasks))

    def finish(self, *tasks: RunTask, microseconds: int = 0, status: TaskStatus = TaskStatus.SUCCESS) -> None:
        results = Batch[RunResult](
            RunResult(t.task_id, 0, 1, status, pack([b""] * t.rows), microseconds, (), rows=t.rows) for t in tasks
        )
        self.tell(TasksFinished(self.number, results))

    def hold(self) -> list[RunTask]:
        """Let the processor hold three short tasks that have not started. The first of them has the number 2."""
        self.know()
        tasks = [self.task() for _ in range(3)]
        self.run(*tasks)
        assert self.handed() == tasks
        return tasks

    def hold_and_execute(self) -> list[RunTask]:
        """Let the processor hold three short tasks, and execute the first of them."""
        tasks = self.hold()
        self.execute(2)
        return tasks

    def execute(self, number: int) -> None:
        self.progress.words[4] = round(self.clock() * 1e9)
        self.progress.words[0] = number

    def texts(self) -> list[str]:
        return [r.payload.decode() for results in self.link.take(Batch[RunResult]) for r in results]

    def cancel(self, *tasks: RunTask) -> None:
        self.tell(Batch[RunCancel](RunCancel(t.task_id, 0, t.attempt, t.rows) for t in tasks))

    def ask_back(self, *tasks: RunTask) -> list[bytes]:
        """Recall tasks, and return the ids of those that were given back."""
        self.tell(Batch[RecallRequest](RecallRequest(t.task_id, 0, t.attempt) for t in tasks))
        return [response.task_id for batch in self.link.take(Batch[RecallResponse]) for response in batch]

    def die(self, executing: int) -> None:
        self.tell(ProcessorDown(self.number, executing, "died: signal SIGKILL"))

    def handed(self) -> list[RunTask]:
        return [task for hand in self.processor.take(SendTasks) for task in hand.tasks]

    def answers(self) -> list[tuple[bytes, TaskStatus]]:
        return [(r.task_id, TaskStatus(r.status)) for results in self.link.take(Batch[RunResult]) for r in results]

    def know(self, microseconds: int = 0, function: ObjectId = FUNCTION) -> None:
        """Let the slot learn the duration of a function."""
        task = self.task(function)
        self.run(task)
        assert self.handed() == [task]
        self.finish(task, microseconds=microseconds)
        self.answers()


class WaitingBench(SlotBench):
    """Processors by number, each with a progress page of its own. Requested objects arrive at once."""

    def __init__(self, waiting_most: float = inf) -> None:
        super().__init__(waiting_most=waiting_most)
        self.pages: dict[int, ProgressPage] = {}
        self.results_of: dict[int, int] = {}
        self.up(is_extra=False)

    def up(self, is_extra: bool = True) -> None:
        self.processor_up(is_extra)
        self.pages[self.number] = self.progress
        self.results_of[self.number] = 0

    def tell(self, message: object) -> None:
        super().tell(message)
        for need in self.objects.take(NeedObject):
            super().tell(ObjectFound(CachedObject(need.object_id, [b"x"], None)))

    def handed_to(self) -> list[tuple[int, list[RunTask]]]:
        return [(hand.number, list(hand.tasks)) for hand in self.processor.take(SendTasks)]

    def wait_for_others(self, number: int, is_stuck: bool = True) -> None:
        """Let the task that this processor executes wait for other tasks."""
        task = self.results_of[number] + 1
        self.pages[number].words[0] = task
        self.tell(ProcessorBlocked(number, task, is_stuck))

    def ask(self, number: int) -> None:
        self.tell(ProcessorResumable(number, self.results_of[number] + 1))

    def end(self, number: int, task: RunTask, status: TaskStatus = TaskStatus.SUCCESS) -> None:
        self.results_of[number] += 1
        self.tell(TasksFinished(number, Batch[RunResult]([RunResult(task.task_id, 0, 1, status, b"", 0, ())])))

    def permitted(self) -> list[int]:
        return [resume.number for resume in self.processor.take(ResumeProcessor)]

    def suspended(self) -> list[bytes]:
        return [run.task_id for batch in self.link.take(Batch[RunBlocked]) for run in batch]

    def resumed(self) -> list[bytes]:
        return [run.task_id for batch in self.link.take(Batch[RunUnblocked]) for run in batch]
