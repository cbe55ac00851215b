"""Processors: the processors of one worker, and whose turn it is.

Written to by the slot only. Plain data: what each processor holds (`ProcessorState`), and which of them runs tasks,
waits for other tasks, or has nothing to do.

    coming --> spare --> active --task waits--> suspended --asks--> asking --permission--> active
                 ^          |                       |
                 +--its tasks are done              +--goes on unasked--> loose --> spare

One processor is active: it gets the tasks. A suspended one has a task that waits. Those that ask to go on do so one
after the other, the deepest first, and before any task that waits in the queue. A loose one runs though it should not:
a task in it was told to end, or went on without asking; nothing is handed out while there is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from scaler.actors.kit import ActorRef
from scaler.ids import ObjectId
from scaler.processor.progress_page import Progress
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunTask
from scaler.worker.task_queue import RunKey, run_of


class End(NamedTuple):
    """What becomes of a run that shall end."""

    status: TaskStatus
    text: str = ""


class Held(NamedTuple):
    """A task in a processor."""

    task: RunTask
    expected_us: float


@dataclass(eq=False)
class ProcessorState:
    """What exists only while there is a processor."""

    number: int
    proxy: ActorRef
    progress: Progress
    is_extra: bool = False
    """when it ends, no other one is started"""
    held: deque[Held | None] = field(default_factory=deque)
    """in the order in which they were handed, which is the order of the results; None: taken back"""
    held_us: float = 0.0
    """what all that takes; infinite: nothing more is handed to it before it holds nothing"""
    results_seen: int = 0
    is_doomed: bool = False
    """killed, and not dead yet"""
    distrusted: str = ""
    """why its results are not believed any more, and it was killed"""
    waiting: RunTask | None = None
    """its task that waits for others, or asks to go on"""

    # Of `Supplies`
    has: set[ObjectId] = field(default_factory=set)
    used: set[ObjectId] = field(default_factory=set)
    """of these, what tasks needed that were handed since the last collection"""
    results_collected: int = 0
    """how many results had been seen at the last collection"""

    # Of `Stopping`
    unwanted: dict[RunKey, End] = field(default_factory=dict)
    """runs among the held ones that shall end: they are answered when they have"""
    interrupted: int = 0
    """the number of the last task that was to be interrupted"""
    kill_at: float = 0.0
    is_insisting: bool = False
    """somebody looks now and then whether the unwanted runs have ended"""

    # Of `TimeLimit` and `Recall`
    is_timing: bool = False
    """somebody looks whether its task runs for too long"""
    is_watched: bool = False
    """somebody looks now and then whether it is stuck"""

    # Of `Suspension`
    wait: int = 0
    """the number of the wait, while its process may be stopped"""
    wait_ends_at: float = inf
    """when that wait ends in any case"""
    suspensions: int = 0
    """how often its process was stopped"""
    is_suspended: bool = False

    def runs(self) -> set[RunKey]:
        """Return what it holds."""
        return {run_of(entry.task) for entry in self.held if entry is not None}

    def task_at(self, number: int) -> RunTask | None:
        """Return the task with this number, if it holds it."""
        index = number - self.results_seen - 1
        entry = self.held[index] if 0 <= index < len(self.held) else None
        return None if entry is None else entry.task

    def executed_task(self, number: int) -> RunTask | None:
        """Return the task with this number, if it is the one that is executed: all before it have their results."""
        return self.task_at(number) if number == self.results_seen + 1 else None


class Processors:
    """The processors of one worker. Each is in exactly one of the places below, or dismissed and in none."""

    def __init__(self) -> None:
        self._members: dict[int, ProcessorState] = {}
        self.active: ProcessorState | None = None
        self.spare: list[ProcessorState] = []
        """have nothing to do; the one that was active last is the last"""
        self.suspended: set[int] = set()
        self.asking: list[ProcessorState] = []
        self.loose: set[int] = set()
        self.coming: set[int] = set()
        """numbers of processes that are being started"""
        self.asked = 0
        """how many more were asked for"""
        self._least_spare = 0
        """of the extra ones, since the last `take_surplus`"""

    def __iter__(self) -> Iterator[ProcessorState]:
        return iter(self._members.values())

    def get(self, number: int) -> ProcessorState | None:
        """Return the processor with this number, if it is up."""
        return self._members.get(number)

    def has_waiting(self) -> bool:
        """Return whether any processor has a task that waits."""
        return bool(self.suspended or self.asking or self.loose)

    def reserve(self) -> int:
        """Return how many processors have nothing to do or are on their way."""
        return len(self.spare) + len(self.coming) + self.asked

    # Coming and going

    def join(self, processor: ProcessorState) -> None:
        self._members[processor.number] = processor
        self.coming.discard(processor.number)
        self.spare.append(processor)

    def leave(self, number: int) -> ProcessorState | None:
        """Remove a processor that is dead. Returns it."""
        processor = self._members.pop(number, None)
        if processor is not None:
            self._take_out(processor)
        return processor

    def has_surplus(self, kept: int) -> bool:
        """Return whether more extra processors than `kept` have nothing to do."""
        return len(self._extra_spare()) > kept

    def take_surplus(self, kept: int) -> list[ProcessorState]:
        """Remove from the spare ones those that had nothing to do since the last call, but for `kept` of them."""
        extra = self._extra_spare()
        surplus = extra[: max(0, min(self._least_spare, len(extra)) - kept)]
        for processor in surplus:
            self.spare.remove(processor)
        self._least_spare = len(extra) - len(surplus)
        return surplus

    def _extra_spare(self) -> list[ProcessorState]:
        return [processor for processor in self.spare if processor.is_extra]

    # Who does what

    def activate(self, processor: ProcessorState) -> None:
        """Give a processor the place. The one that had it is spare."""
        self._take_out(processor)
        if self.active is not None:
            self.spare.append(self.active)
        self.active = processor

    def suspend(self, processor: ProcessorState, task: RunTask) -> None:
        self._take_out(processor)
        processor.waiting = task
        self.suspended.add(processor.number)

    def ask(self, processor: ProcessorState) -> None:
        self._take_out(processor)
        self.asking.append(processor)

    def next_to_go_on(self) -> ProcessorState:
        """Return the deepest of those that ask; of several the one that asked first."""
        return max(self.asking, key=lambda processor: 0 if processor.waiting is None else processor.waiting.priority)

    def let_loose(self, processor: ProcessorState) -> None:
        self._take_out(processor)
        processor.waiting = None
        self.loose.add(processor.number)

    def put_back(self, processor: ProcessorState) -> None:
        """The task that made it something special has ended."""
        if processor is not self.active and processor not in self.spare:
            self._take_out(processor)
            processor.waiting = None
            self.spare.append(processor)

    def _take_out(self, processor: ProcessorState) -> None:
        if processor is self.active:
            self.active = None
        if processor in self.spare:
            self.spare.remove(processor)
            self._least_spare = min(self._least_spare, len(self._extra_spare()))
        if processor in self.asking:
            self.asking.remove(processor)
        self.suspended.discard(processor.number)
        self.loose.discard(processor.number)
