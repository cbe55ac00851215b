"""Processors: the processors of one worker, and the state of each. At most one processor holds the slot.

A `ProcessorRecord` holds the data that all parts of a slot share. `processor_states.py` defines the transitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice, repeat
from typing import Any, TypeAlias

from scaler.executors.messages import ProcessNow
from scaler.executors.processes.slot.processor_states import (
    BLOCK,
    BLOCKED,
    DIE,
    DISTRUSTED,
    ENDED,
    GET_SLOT,
    KILLED,
    LOSE_SLOT,
    READY,
    REQUEST_SLOT,
    RESUMABLE,
    RUNNING,
    STARTING,
    TRANSITIONS,
    UNSLOTTED,
    Event,
    IllegalProcessorTransitionError,
    State,
    next_state,
)
from scaler.executors.task_queue import RunKey, run_of
from scaler.kit import ActorRef, Timer
from scaler.processor.progress_page import ProgressPage
from scaler.wire.messages.rows import part_of, row_ids
from scaler.wire.messages.worker import RunTask

_UNUSUAL = (BLOCKED, RESUMABLE, UNSLOTTED, KILLED, DISTRUSTED)

Mail: TypeAlias = dict[type, Callable[[Any], None]]
"""The handler of each message type that a slot passes on to a part."""
Now: TypeAlias = Callable[[], float]
"""Returns the present time, in seconds."""
Schedule: TypeAlias = Callable[[float, object], Timer]
"""Sends a message to the slot after the given number of seconds."""
Held: TypeAlias = tuple[RunTask, float]
"""A task in a processor, and its expected duration in microseconds. A range is repeated for each of its rows, with the
duration of one row.
"""


@dataclass(eq=False, slots=True)
class ProcessorRecord:
    """The data about one processor whose process is up."""

    number: int
    proxy: ActorRef
    progress: ProgressPage
    is_extra: bool
    """whether a slot has requested the processor, which is then not replaced when it ends"""
    state: State
    """the state of the processor, changed by `Processors.apply` only"""
    held: deque[Held | None] = field(default_factory=deque)
    """the tasks that the processor was sent, in the order of their results; None for a recalled task"""
    held_us: float = 0.0
    """the expected duration of all held tasks; infinite: the processor gets no further task until it holds no task"""
    results_seen: int = 0
    pid: int = 0
    extra_rows: int = 0
    """the number of entries in `held` minus the number of tasks: a range is one task, with an entry for each row"""

    @property
    def n_held(self) -> int:
        """How many tasks without a result the processor holds. A range counts as one task."""
        return len(self.held) - self.extra_rows

    def hold(self, task: RunTask, expected_us: float) -> int:
        """Add a task, with the expected duration of the task or of each of its rows. Return how many tasks are held."""
        if task.rows:
            self.held.extend(repeat((task, expected_us), task.rows))
            self.extra_rows += task.rows - 1
        else:
            self.held.append((task, expected_us))
        return self.n_held

    def entries(self) -> Iterator[tuple[Held | None, int]]:
        """Yield each entry, and how many numbers it has: one for each row of a range."""
        for _id, same in groupby(self.held, key=id):
            entries = list(same)
            if entries[0] is None:
                yield from ((None, 1) for _ in entries)
            else:
                yield entries[0], len(entries)

    def tasks(self) -> list[RunTask]:
        """Return the tasks that the processor holds."""
        entries = ((entry, 1) for entry in self.held) if not self.extra_rows else self.entries()
        return [entry[0] for entry, _count in entries if entry is not None]

    def take(self, n_rows: int) -> None:
        """Remove the first task, which has ended. `n_rows`: the number of rows of a range; 1 for a single task."""
        for _ in range(n_rows):
            self.held.popleft()
        self.extra_rows -= n_rows - 1

    def end_range(self, n_done: int) -> float:
        """End the first range early: remove `n_done` rows; the next row becomes a task, the others must not start.

        Return the expected duration of the rows that are no longer held.
        """
        held = self.held
        entry = held[0]
        assert entry is not None
        task, each_us = entry
        for _ in range(n_done):
            held.popleft()
        held[0] = part_of(task, n_done, 1), each_us
        for index in range(1, task.rows - n_done):
            held[index] = None
        self.extra_rows -= task.rows - 1
        return each_us * (task.rows - 1)

    def take_back(self, indexes: range) -> list[RunTask]:
        """Remove and return the tasks at these indexes. Their numbers stay, until the processor has skipped them."""
        entries = {id(entry): entry for entry in (self.held[index] for index in indexes) if entry is not None}
        for index in indexes:
            self.held[index] = None
        taken = [entry[0] for entry in entries.values()]
        self.extra_rows -= sum(task.rows - 1 for task in taken if task.rows)
        return taken

    def runs(self) -> set[RunKey]:
        """Return the keys of the runs that the processor holds."""
        return set(map(run_of, self.tasks()))

    def numbers_of(self, runs: Container[RunKey]) -> list[int]:
        """Return the numbers of the tasks and rows of these runs. The run of a range includes all its rows."""
        numbers: list[int] = []
        number = self.results_seen + 1
        for entry, count in self.entries():
            if entry is not None and run_of(entry[0]) in runs:
                numbers += range(number, number + count)
            elif entry is not None and entry[0].rows:
                keys = ((row, entry[0].attempt) for row in row_ids(entry[0].task_id, count))
                numbers += [each for each, key in enumerate(keys, number) if key in runs]
            number += count
        return numbers

    def _first_index(self, index: int) -> int:
        """Return the index of the first row of the range with a row at this index, or the index of a single task."""
        entry = self.held[index]
        if entry is None or not entry[0].rows:
            return index
        return next(place for place, each in enumerate(self.held) if each is entry)

    def row_at(self, number: int) -> tuple[RunTask, int] | None:
        """Return the task with this number, and the row of a range; None if the processor does not hold such a task."""
        index = number - self.results_seen - 1
        entry = self.held[index] if 0 <= index < len(self.held) else None
        return None if entry is None else (entry[0], index - self._first_index(index))

    def task_at(self, number: int) -> RunTask | None:
        """Return the task with this number, for a range the row as a single task; None if there is no such task."""
        found = self.row_at(number)
        if found is None:
            return None
        task, row = found
        return part_of(task, row, 1) if task.rows else task

    def last_number(self, number: int) -> int:
        """Return the number of the last row of the range that includes this number; `number` for a single task."""
        found = self.row_at(number)
        return number if found is None or not found[0].rows else number - found[1] + found[0].rows - 1

    def has_behind(self, number: int) -> bool:
        """Return whether the processor holds tasks behind the task with this number."""
        last = self.last_number(number)
        return any(entry is not None for entry in islice(self.held, max(0, last - self.results_seen), None))

    def executed_task(self, number: int) -> RunTask | None:
        """Return the task with this number if all tasks before it have results, otherwise None."""
        return self.task_at(number) if number == self.results_seen + 1 else None


class Processors:
    """Records the processors of one worker, and changes their states."""

    def __init__(self) -> None:
        self._members: dict[int, ProcessorRecord] = {}
        self._by_state: dict[State, dict[int, ProcessorRecord]] = {state: {} for state in TRANSITIONS}
        self._unusual = [self._by_state[state] for state in _UNUSUAL]
        self._coming: set[int] = set()
        self._blocked: dict[int, RunTask] = {}
        self.active: ProcessorRecord | None = None
        """the processor that holds the slot; None: no processor holds the slot"""
        self.is_usual = True
        """whether only the active processor runs or may run, and no processor has a blocked task"""
        self.has_blocked = False
        """whether a processor has a task that is blocked or was blocked"""

    def __iter__(self) -> Iterator[ProcessorRecord]:
        return iter(self._members.values())

    def get(self, number: int) -> ProcessorRecord | None:
        """Return the processor with this number; None if the processor is not up."""
        return self._members.get(number)

    def in_state(self, state: State) -> dict[int, ProcessorRecord]:
        """Return a live view of the processors in this state, by number, in the order in which they entered it."""
        return self._by_state[state]

    def coming(self) -> int:
        """Return how many processes are being started."""
        return len(self._coming)

    def blocked_task(self, processor: ProcessorRecord) -> RunTask | None:
        """Return the blocked task of this processor, or None. A resumable task still counts as blocked."""
        return self._blocked.get(processor.number)

    # Start and end

    def expect(self, number: int) -> None:
        """Record that a process is being started."""
        self._coming.add(number)

    def give_up(self, number: int) -> None:
        """Record that a process has ended before it was ready."""
        self._coming.discard(number)

    def join(
        self, number: int, proxy: ActorRef, progress: ProgressPage, is_extra: bool, pid: int = 0
    ) -> ProcessorRecord:
        """Add a processor that was expected and is ready for work.

        Raises:
            IllegalProcessorTransitionError: if the processor was not expected.
        """
        if number not in self._coming:
            raise IllegalProcessorTransitionError(f"processor {number} is ready and was not expected")
        self._coming.remove(number)
        state = TRANSITIONS[STARTING][READY]
        processor = ProcessorRecord(number, proxy, progress, is_extra, state, pid=pid)
        self._members[number] = processor
        self._by_state[state][number] = processor
        return processor

    def leave(self, processor: ProcessorRecord) -> None:
        """Remove a processor whose process has ended."""
        self.apply(processor, DIE)
        del self._members[processor.number]

    # Events

    def apply(self, processor: ProcessorRecord, event: Event) -> None:
        """Move a processor to its next state.

        Raises:
            IllegalProcessorTransitionError: if the event cannot happen in the present state, which is then unchanged.
        """
        before = processor.state
        following = next_state(before, event)
        if following is None:
            return
        del self._by_state[before][processor.number]
        if following is not ENDED:
            self._by_state[following][processor.number] = processor
        if following not in (BLOCKED, RESUMABLE):
            self._blocked.pop(processor.number, None)
        self._look_for_unusual()
        if before is RUNNING:
            self.active = None
        if following is RUNNING:
            self.active = processor
        processor.state = following

    def _look_for_unusual(self) -> None:
        blocked, resumable, unslotted, killed, distrusted = self._unusual
        self.has_blocked = bool(blocked or resumable or unslotted)
        self.is_usual = not (self.has_blocked or killed or distrusted)

    def give_slot(self, processor: ProcessorRecord) -> None:
        """Give the slot to a processor. The processor that holds the slot now must have no tasks."""
        if self.active is not None:
            self.apply(self.active, LOSE_SLOT)
        self.apply(processor, GET_SLOT)

    def block(self, processor: ProcessorRecord, task: RunTask) -> None:
        """Record that this task waits for other tasks."""
        self.apply(processor, BLOCK)
        self._blocked[processor.number] = task

    def ask(self, processor: ProcessorRecord) -> None:
        """Note that the blocked task of a processor can resume, and that it requests the slot."""
        self.apply(processor, REQUEST_SLOT)

    def next_to_resume(self) -> ProcessorRecord:
        """Return the resumable processor whose task has the greatest priority; among equals, the first to become
        resumable.
        """
        blocked = self._blocked
        return max(self._by_state[RESUMABLE].values(), key=lambda processor: blocked[processor.number].priority)

    def now(self, worker: int, now: float) -> Iterator[ProcessNow]:
        """Yield what each processor executes at this moment."""
        for processor in self:
            number = processor.progress.executing
            task = processor.task_at(number) if number else None
            seconds = processor.progress.ran_seconds(number, now) if task is not None else 0.0
            is_waiting = processor.number in self._blocked
            yield ProcessNow(worker, processor.pid, task, seconds, is_waiting)
