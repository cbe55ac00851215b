"""Prefetch: decides how many tasks a worker sends to a processor at a time.

Tasks in a processor cannot be moved to other workers. So a processor gets only a few milliseconds of expected work, and
only tasks whose objects it has (see `supplies.py`). A processor that has one longer task (up to `NEXT_US`) gets a
second task: otherwise, when tasks occupy all cores, the processor would be idle after the first task until the agent
gets a core. A processor gets more work in ranges than in single tasks, so that it can return several results at once.

A single task for an empty processor is sent at once, and its duration is estimated afterwards (`weigh`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from scaler.durations import Durations
from scaler.executors.processes.slot.processors import Held, ProcessorRecord
from scaler.executors.processes.slot.supplies import Supplies
from scaler.executors.task_queue import TaskQueue
from scaler.ids import ObjectId
from scaler.pickling.serialization import size_of
from scaler.wire.messages.worker import RunTask

HELD_US = 6_000.0
"""How much expected work a processor with more than two single tasks may hold. When half is done, more is sent."""
TOGETHER_US = 50_000.0
"""How much expected work a processor may hold in ranges: as much as the scheduler sends ahead of time."""
NEXT_US = 25_000.0
"""The longest expected duration of a task that a processor holds together with another task."""
UNKNOWN_US = 50_000.0
"""The estimate for a function of which no call has ended. Its calls neither wait behind tasks nor make tasks wait."""
HELD_TASKS = 512
PORTION_BYTES = 1024 * 1024
"""How many bytes of arguments one portion of tasks may have; a single task may have more."""
OVERHEAD_US = 5.0
"""The time that a task takes in the processor in addition to the call itself."""
FUNCTIONS_REMEMBERED = 10_000


class Prefetch:
    """Takes portions of tasks from the queue of one slot."""

    def __init__(self, queue: TaskQueue, supplies: Supplies) -> None:
        self._queue = queue
        self._supplies = supplies
        self._supply = supplies.supply
        self._durations = Durations(UNKNOWN_US, FUNCTIONS_REMEMBERED)
        self.took_us: defaultdict[ObjectId, list[int]] = defaultdict(list)
        """by function: the durations of ended calls that are not yet counted in the estimates"""
        self.unweighed: tuple[ProcessorRecord, Held] | None = None
        """the task that was sent before its duration was estimated, and its processor; None: there is no such task"""

    def take(
        self, processor: ProcessorRecord, together_us: float = TOGETHER_US, most: int = HELD_TASKS
    ) -> list[RunTask]:
        """Move tasks from the queue to the processor: as many as fit, and only those whose objects the processor has.

        Args:
            together_us: how much expected work the processor may hold in ranges.
            most: how many tasks the processor may hold; a range counts as one task.
        """
        if self.unweighed is not None:
            self.weigh()
        row = self._queue.first_row()
        if len(row) == 1 and not processor.held and self._queue.is_one_row:
            task = row[0]
            if not (task.object_ids or task.rows) and task.function_id in self._supplies.stock(processor).used:
                row.clear()
                self.unweighed = processor, (task, 0.0)
                processor.held.append(self.unweighed[1])
                return [task]
        portion = self._take_tasks(processor, row, together_us, most)
        if self._queue.by_account:
            self._queue.removed(portion)
        return portion

    def _take_tasks(self, processor: ProcessorRecord, row: deque[RunTask], range_us: float, most: int) -> list[RunTask]:
        held, held_us, n_held = processor.held, processor.held_us, processor.n_held
        portion: list[RunTask] = []
        if not row or (held and not _may_have_more(processor, range_us if row[0].rows else HELD_US)):
            return portion
        if self.took_us:
            self._count()
        used = (stock := self._supplies.stock(processor)).used
        function_id, mean_us, is_range, most_us = b"", 0.0, False, HELD_US
        room_bytes = PORTION_BYTES
        while row:
            task = row[0]
            if task.function_id != function_id or (task.rows > 0) is not is_range:
                function_id, is_range = task.function_id, task.rows > 0
                mean_us = self._durations.expected_us(function_id)
                is_short = mean_us <= NEXT_US and (n_held != 1 or held_us <= NEXT_US)
                most_us = range_us if is_range and is_short else HELD_US
            expected_us = mean_us * task.rows if task.rows else mean_us
            room_bytes -= (n_bytes := len(task.payload) + size_of(task.frames) if task.frames else len(task.payload))
            if held and (
                (held_us + expected_us > most_us and (n_held > 1 or max(held_us, expected_us) > NEXT_US))
                or n_held >= most
                or room_bytes < 0
            ):
                break
            if (task.function_id not in used or task.object_ids) and not self._supply.has_all(stock, task):
                if self._supply.holds_up(stock, task):
                    break
                room_bytes += n_bytes
                self._queue.step_aside()
                row = self._queue.first_row() if most > 1 else deque()  # else only that task may start
                continue
            row.popleft()
            if not row:
                row = self._queue.first_row()
            n_held = processor.hold(task, mean_us)
            held_us += expected_us
            portion.append(task)
        processor.held_us = held_us
        return portion

    def weigh(self) -> None:
        """Estimate the duration of the task that was sent alone, unless it has ended."""
        self._count()
        if self.unweighed is None:
            return
        (processor, entry), self.unweighed = self.unweighed, None
        if processor.held and processor.held[0] is entry:
            task = entry[0]
            expected_us = self._durations.expected_us(task.function_id)
            processor.held[0] = (task, expected_us)
            processor.held_us += expected_us

    def forget(self, function_ids: Iterable[ObjectId]) -> None:
        """Forget the run times of deleted functions; ids of other objects are ignored."""
        self._count()
        self._durations.forget(function_ids)

    def _count(self) -> None:
        for function_id, took_us in self.took_us.items():
            count = len(took_us)
            self._durations.learn(function_id, sum(took_us) + count * OVERHEAD_US, count)
        self.took_us.clear()


def _may_have_more(processor: ProcessorRecord, most_us: float) -> bool:
    """Return whether a processor has done half of the work that it may hold, and so may get more tasks."""
    n_held = processor.n_held
    return n_held <= HELD_TASKS / 2 and processor.held_us <= (most_us / 2 if n_held > 1 else NEXT_US)
