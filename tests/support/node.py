"""The real slots and processors of a node, between recorders: without an agent, a link and a scheduler."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any, cast

import psutil

from scaler.executors.messages import CachedObject, NeedObject, ObjectFound
from scaler.executors.processes.pool.pool import ProcessorPool
from scaler.executors.processes.slot.processors import ProcessorRecord
from scaler.executors.processes.slot.slot import Slot
from scaler.ids import IdSource, ObjectId, TaskId, content_id
from scaler.kit import ActorRef
from scaler.pickling.serialization import DefaultSerializer, function_to_frames
from scaler.process.shell import Shell
from scaler.settings import ClusterConfig
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask
from tests.support.processes import alive
from tests.support.recorder import Recorder

AGENT_TOKEN = b"n" * 16


class Node:
    """Slots and their processors in the shell of this process, between recorders. It is its own `Edge`."""

    def __init__(self, n_workers: int = 1, **settings: Any) -> None:
        self._strangers = {each.pid for each in psutil.Process().children(recursive=True)}
        self.shell = Shell("builtin")
        self.link, self.objects = Recorder(), Recorder()
        dispatcher = self.shell.dispatcher
        link, objects = dispatcher.spawn(self.link), dispatcher.spawn(self.objects)
        names = tuple(f"w{index}" for index in range(n_workers))
        self.asked_for = Recorder()
        asked = dispatcher.spawn(self.asked_for)
        self.slots: tuple[ActorRef, ...] = tuple(
            dispatcher.spawn(Slot(name, index, link, objects, asked)) for index, name in enumerate(names)
        )
        config = ClusterConfig("tcp://127.0.0.1:1", n_workers, **settings)
        self.pool = dispatcher.spawn(ProcessorPool(self.shell, config, names, self.slots, AGENT_TOKEN))
        self.stored: dict[ObjectId, CachedObject] = {}
        self.results: list[RunResult] = []
        self._condition: Callable[[], Any] = lambda: True
        self._deadline = 0.0
        self._new_id = IdSource()

    def receive(self) -> bool:
        for need in self.objects.take(NeedObject):
            need.worker.send(ObjectFound(self.stored[need.object_id]))
        for results in self.link.take(Batch[RunResult]):
            self.results += results
        if self._condition() or time.monotonic() > self._deadline:
            self.shell.loop.stop()
        return False

    def flush(self) -> bool:
        return False

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        self._condition, self._deadline = condition, time.monotonic() + seconds
        self.shell._edge = self
        ticker = self.shell.loop.call_later(0, self._tick)
        self.shell.loop.run_forever()
        ticker.cancel()
        assert condition(), f"not within {seconds} s; results: {self.results}"

    def _tick(self) -> None:
        """Check the condition regularly, because processes change without a message."""
        self.shell.turn()
        self.shell.loop.call_later(0.02, self._tick)

    def task(self, function: Callable[..., Any], worker: int = 0) -> RunTask:
        frames = [bytes(frame) for frame in function_to_frames(DefaultSerializer(), function)]
        function_id = content_id(frames)
        self.stored[function_id] = CachedObject(function_id, frames, None)
        return RunTask(TaskId(self._new_id()), worker, 1, function_id, b"", b"")

    def run(self, *tasks: RunTask) -> None:
        for task in tasks:
            self.slots[task.worker].send(Batch[RunTask]([task]))

    def slot(self, worker: int = 0) -> Slot:
        return cast("Slot", self.slots[worker]._actor)

    def active(self) -> ProcessorRecord | None:
        """Return the processor of the first worker that gets its tasks."""
        return self.slot()._processors.active

    def until_executing(self) -> ProcessorRecord:
        """Run until the first worker's processor executes its first task."""
        self.until(lambda: (processor := self.active()) is not None and processor.progress.executing == 1)
        processor = self.active()
        assert processor is not None
        return processor

    def statuses(self) -> list[TaskStatus]:
        return [TaskStatus(result.status) for result in self.results]

    def values(self) -> list[Any]:
        return [pickle.loads(result.payload) for result in self.results]

    def processes(self) -> list[int]:
        """Return the process ids of the processors, without their fork server."""
        own = [child for child in psutil.Process().children() if child.pid not in self._strangers]
        return [each.pid for child in own for each in child.children() if alive(each.pid)]

    def close(self) -> None:
        started = {each.pid for each in psutil.Process().children(recursive=True)} - self._strangers
        self.shell.dispatcher.end(self.pool)
        self.shell.dispatcher.close()
        self.shell.loop.close()
        assert [pid for pid in started if alive(pid)] == []
