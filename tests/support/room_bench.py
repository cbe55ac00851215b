"""A bench for one room of a slot alone: processors between recorders, and timers on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from scaler.executors.processes.slot.processors import ProcessorRecord, Processors
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.kit import Dispatcher
from scaler.wire.messages.worker import RunTask
from tests.support.pages import new_page
from tests.support.recorder import Recorder
from tests.support.slot_audit import audit_part, audit_processors
from tests.support.virtual_clock import VirtualClock

FUNCTION = ObjectId(b"f" * 16)


class Room(Protocol):
    @property
    def mail(self) -> Mapping[type, Callable[[Any], None]]: ...

    def leave(self, processor: ProcessorRecord) -> None: ...


class _BenchTimer:
    def __init__(self, timers: list[tuple[float, object]], entry: tuple[float, object]) -> None:
        self._timers, self._entry = timers, entry

    def cancel(self) -> None:
        if self._entry in self._timers:
            self._timers.remove(self._entry)


class RoomBench:
    """The environment of a room. Scheduled messages arrive in `wait`."""

    def __init__(self) -> None:
        self.now = VirtualClock()
        self.dispatcher = Dispatcher(self.now)
        self.sent, self.link = Recorder(), Recorder()
        self.proxy, self.link_ref = self.dispatcher.spawn(self.sent), self.dispatcher.spawn(self.link)
        self.processors = Processors()
        self.timers: list[tuple[float, object]] = []
        self.new_id = IdSource()
        self._number = 0

    def schedule(self, seconds: float, message: object) -> Any:
        entry = (self.now() + seconds, message)
        self.timers.append(entry)
        return _BenchTimer(self.timers, entry)

    def wait(self, room: Room, seconds: float) -> None:
        """Advance the clock, and deliver all messages that become due."""
        end = self.now() + seconds
        while self.timers and min(due for due, _ in self.timers) <= end:
            timer = min(self.timers, key=lambda timer: timer[0])
            self.timers.remove(timer)
            self.now.advance(max(0.0, timer[0] - self.now()))
            room.mail[type(timer[1])](timer[1])
            self.audit(room)
        self.now.advance(end - self.now())

    def audit(self, room: Room) -> None:
        audit_processors(self.processors)
        audit_part(room, self.processors)

    def idle(self, is_extra: bool = True) -> ProcessorRecord:
        self._number += 1
        self.processors.expect(self._number)
        return self.processors.join(self._number, self.proxy, new_page(), is_extra)

    def running(self, tasks: int = 0, executing: int = 0) -> ProcessorRecord:
        """Return a processor that has the slot and `tasks` tasks, and executes the one with the number `executing`."""
        processor = self.idle()
        self.processors.give_slot(processor)
        processor.held.extend((self.task(), 1.0) for _ in range(tasks))
        self.execute(processor, executing)
        return processor

    def blocked(self, priority: int = 0) -> ProcessorRecord:
        """Return a processor whose task waits for other tasks."""
        processor = self.running()
        task = self.task(priority)
        processor.held.append((task, 1.0))
        self.execute(processor, 1)
        self.processors.block(processor, task)
        return processor

    def task(self, priority: int = 0, object_ids: bytes = b"", function: ObjectId = FUNCTION) -> RunTask:
        return RunTask(TaskId(self.new_id()), 0, 1, function, b"", object_ids, priority)

    def execute(self, processor: ProcessorRecord, number: int) -> None:
        """Let the processor start the task with this number now."""
        processor.progress.words[4] = round(self.now() * 1e9)
        processor.progress.words[0] = number

    def take(self, kind: type) -> list[Any]:
        """Remove and return the messages of one kind that were sent to the processors."""
        self.dispatcher.run()
        return self.sent.take(kind)

    def told(self, kind: type) -> list[Any]:
        """Remove and return the messages of one kind that were sent to the link."""
        self.dispatcher.run()
        return self.link.take(kind)


def finish(processor: ProcessorRecord, count: int = 1) -> None:
    """Let the processor return `count` results."""
    for _ in range(count):
        processor.held.popleft()
    processor.results_seen += count
    if not processor.held:
        processor.held_us = 0.0
