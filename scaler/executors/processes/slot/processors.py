"""Processors: the processors of one worker, and the state of each.

Used by the slot and its rooms; it sends nothing. A `ProcessorRecord` holds the state that all rooms share; each room
keeps its own part. `processor_states.py` says which state follows which.

Must never: have two processors with the slot, or one processor in two states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice, repeat
from typing import Any, TypeAlias

from scaler.executors.messages import ProcessNow
from scaler.executors.processes.slot.processor_states import (
    ASK,
    ASKING,
    BLOCK,
    BLOCKED,
    COMING,
    DIE,
    DISTRUSTED,
    DOOMED,
    GET_SLOT,
    GONE,
    LOOSE,
    LOSE_SLOT,
    READY,
    RUNNING,
    TRANSITIONS,
    Event,
    IllegalProcessorTransitionError,
    State,
    next_state,
)
from scaler.executors.task_queue import RunKey, run_of
from scaler.kit import ActorRef, Timer
from scaler.processor.progress_page import ProgressPage
from scaler.wire.messages.rows import calls_of
from scaler.wire.messages.worker import RunTask

_UNUSUAL = (BLOCKED, ASKING, LOOSE, DOOMED, DISTRUSTED)

Mail: TypeAlias = dict[type, Callable[[Any], None]]
"""What a room takes of the mail of its slot."""
Now: TypeAlias = Callable[[], float]
"""Returns the present, in seconds."""
Schedule: TypeAlias = Callable[[float, object], Timer]
"""Has the slot get a message after some seconds."""
Held: TypeAlias = tuple[RunTask, float]
"""A task in a processor, and the microseconds that it, or each of its rows, is expected to take. One is made for each
task."""


def _grouped(held: Iterable[Held | None]) -> Iterator[tuple[Held | None, list[Held | None]]]:
    """Go through what a processor holds: each entry, and how often it is there."""
    for _id, same in groupby(held, key=id):
        entries = list(same)
        yield entries[0], entries


@dataclass(eq=False, slots=True)
class ProcessorRecord:
    """One processor whose process is up."""

    number: int
    proxy: ActorRef
    progress: ProgressPage
    is_extra: bool
    """when it ends, no other one is started"""
    state: State
    """changed by `Processors.apply` only"""
    held: deque[Held | None] = field(default_factory=deque)
    """in the order in which they were handed, which is the order of the results; None: taken back"""
    held_us: float = 0.0
    """how long all that takes; infinite: nothing more is handed to it before it holds nothing"""
    results_seen: int = 0
    pid: int = 0
    extra_rows: int = 0
    """how many entries of `held` are further rows of a range, whose entry is there once for each of its rows"""

    @property
    def n_held(self) -> int:
        """How many tasks it was handed that have no result, a range counted as one."""
        return len(self.held) - self.extra_rows

    def hold(self, task: RunTask, expected_us: float) -> int:
        """It gets a task that, or each row of which, is expected to take so long. Return how many it holds."""
        if task.rows:
            self.held.extend(repeat((task, expected_us), task.rows))
            self.extra_rows += task.rows - 1
        else:
            self.held.append((task, expected_us))
        return self.n_held

    def tasks(self) -> list[RunTask]:
        """Return the tasks that it holds."""
        if not self.extra_rows:
            return [entry[0] for entry in self.held if entry is not None]
        return [entry[0] for entry, _same in _grouped(self.held) if entry is not None]

    def split(self) -> list[RunTask]:
        """Have each row of a range be a task of its own. Return the ranges that it held."""
        ranges: list[RunTask] = []
        apart: list[Held | None] = []
        for entry, same in _grouped(self.held):
            if entry is None or not entry[0].rows:
                apart += same
            else:
                ranges.append(entry[0])
                apart += [(row, entry[1]) for row in calls_of(entry[0])]
        self.held.clear()
        self.held.extend(apart)
        self.extra_rows = 0
        return ranges

    def runs(self) -> set[RunKey]:
        """Return the runs that it holds."""
        return set(map(run_of, self.tasks()))

    def task_at(self, number: int) -> RunTask | None:
        """Return the task with this number, if it holds it."""
        index = number - self.results_seen - 1
        entry = self.held[index] if 0 <= index < len(self.held) else None
        if entry is None or not entry[0].rows:
            return None if entry is None else entry[0]
        before = next(place for place, each in enumerate(self.held) if each is entry)
        return calls_of(entry[0])[index - before]

    def has_behind(self, number: int) -> bool:
        """Return whether it holds tasks behind the one with this number."""
        return any(entry is not None for entry in islice(self.held, max(0, number - self.results_seen), None))

    def executed_task(self, number: int) -> RunTask | None:
        """Return the task with this number, if all tasks before it have their results."""
        return self.task_at(number) if number == self.results_seen + 1 else None


class Processors:
    """The processors of one worker."""

    def __init__(self) -> None:
        self._members: dict[int, ProcessorRecord] = {}
        self._by_state: dict[State, dict[int, ProcessorRecord]] = {state: {} for state in TRANSITIONS}
        self._unusual = [self._by_state[state] for state in _UNUSUAL]
        self._coming: set[int] = set()
        self._blocked: dict[int, RunTask] = {}
        self.active: ProcessorRecord | None = None
        """the one that holds the slot"""
        self.is_usual = True
        """whether the one that holds the slot gets the tasks: no other one runs, may run, or has a task that waits"""
        self.has_blocked = False
        """whether any processor has, or had, a task that waits"""

    def __iter__(self) -> Iterator[ProcessorRecord]:
        return iter(self._members.values())

    def get(self, number: int) -> ProcessorRecord | None:
        """Return the processor with this number, if it is up."""
        return self._members.get(number)

    def in_state(self, state: State) -> dict[int, ProcessorRecord]:
        """Return the processors in this state, by number; the one that came last is the last. It stays up to date."""
        return self._by_state[state]

    def coming(self) -> int:
        """Return how many processes are being started."""
        return len(self._coming)

    def blocked_task(self, processor: ProcessorRecord) -> RunTask | None:
        """Return the task of this processor that waits for others, or asks to go on."""
        return self._blocked.get(processor.number)

    # Coming and going

    def expect(self, number: int) -> None:
        """A process is being started."""
        self._coming.add(number)

    def give_up(self, number: int) -> None:
        """A process has ended before it was ready."""
        self._coming.discard(number)

    def join(
        self, number: int, proxy: ActorRef, progress: ProgressPage, is_extra: bool, pid: int = 0
    ) -> ProcessorRecord:
        """A process that was expected is ready for work.

        Raises:
            IllegalProcessorTransitionError: if it was not expected.
        """
        if number not in self._coming:
            raise IllegalProcessorTransitionError(f"processor {number} is ready and was not expected")
        self._coming.remove(number)
        state = TRANSITIONS[COMING][READY]
        processor = ProcessorRecord(number, proxy, progress, is_extra, state, pid=pid)
        self._members[number] = processor
        self._by_state[state][number] = processor
        return processor

    def leave(self, processor: ProcessorRecord) -> None:
        """Its process has ended."""
        self.apply(processor, DIE)
        del self._members[processor.number]

    # Events

    def apply(self, processor: ProcessorRecord, event: Event) -> None:
        """Move a processor to the state that follows.

        Raises:
            IllegalProcessorTransitionError: if the event cannot happen in its state; nothing has changed then.
        """
        before = processor.state
        following = next_state(before, event)
        if following is None:
            return
        del self._by_state[before][processor.number]
        if following is not GONE:
            self._by_state[following][processor.number] = processor
        if following not in (BLOCKED, ASKING):
            self._blocked.pop(processor.number, None)
        self._look_for_unusual()
        if before is RUNNING:
            self.active = None
        if following is RUNNING:
            self.active = processor
        processor.state = following

    def _look_for_unusual(self) -> None:
        blocked, asking, loose, doomed, distrusted = self._unusual
        self.has_blocked = bool(blocked or asking or loose)
        self.is_usual = not (self.has_blocked or doomed or distrusted)

    def give_slot(self, processor: ProcessorRecord) -> None:
        """Let a processor have the slot instead of the one that holds it now, which has no tasks."""
        if self.active is not None:
            self.apply(self.active, LOSE_SLOT)
        self.apply(processor, GET_SLOT)

    def block(self, processor: ProcessorRecord, task: RunTask) -> None:
        """This task waits for others."""
        self.apply(processor, BLOCK)
        self._blocked[processor.number] = task

    def ask(self, processor: ProcessorRecord) -> None:
        """Its task could go on."""
        self.apply(processor, ASK)

    def next_to_go_on(self) -> ProcessorRecord:
        """Return the processor that asks for the task of the greatest priority; of several the one that asked first."""
        blocked = self._blocked
        return max(self._by_state[ASKING].values(), key=lambda processor: blocked[processor.number].priority)

    def now(self, worker: int, now: float) -> Iterator[ProcessNow]:
        """Return what each of them executes."""
        for processor in self:
            number = processor.progress.executing
            task = processor.task_at(number) if number else None
            seconds = processor.progress.ran_seconds(number, now) if task is not None else 0.0
            is_waiting = processor.number in self._blocked
            yield ProcessNow(worker, processor.pid, task, seconds, is_waiting)
