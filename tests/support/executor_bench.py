"""An executor between recorders, driven only by the messages of the contract, in a real shell, without a scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scaler.executors.executor import LINK, OBJECTS, ExecutorFeature, Node, load_executor, worker_child
from scaler.executors.messages import CachedObject, ExecutorProcessGone, NeedObject, ObjectFound
from scaler.ids import NO_ACCOUNT, Account, IdSource, ObjectId, TaskId, content_id
from scaler.kit import ActorRef, ChildSpec, RestartBudget, Strategy, Supervisor
from scaler.pickling.serialization import (
    INLINE_BYTES,
    OBJECT,
    VALUE,
    DefaultSerializer,
    argument_block,
    frames_argument,
    frozen,
    function_to_frames,
    size_of,
    to_frames,
)
from scaler.process.shell import Shell
from scaler.settings import ClusterConfig
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import (
    RecallRequest,
    RecallResponse,
    RunBlocked,
    RunCancel,
    RunResult,
    RunTask,
    RunUnblocked,
)
from tests.support.recorder import Recorder

ADDRESS = "tcp://127.0.0.1:1"
AGENT_TOKEN = b"n" * 16
DEFAULT = DefaultSerializer()
SECONDS = 60.0


class Stored:
    def __init__(self, object_id: ObjectId) -> None:
        self.object_id = object_id


class ExecutorBench:
    """The children of an executor under a supervisor, with recorders as link and object cache. It is its own `Edge`."""

    def __init__(self, engine: str, n_workers: int = 1, **settings: Any) -> None:
        self.shell = Shell("builtin")
        config = ClusterConfig(ADDRESS, n_workers, engine=engine, **settings)
        self.parts = load_executor(config).parts
        self.link, self.cache = Recorder(), Recorder()
        names = tuple(f"w{index}" for index in range(n_workers))
        children = load_executor(config).children(Node(self.shell, config, names, AGENT_TOKEN))
        self._tree = Supervisor(
            (
                ChildSpec(OBJECTS, Recorder, lambda _peers: self.cache),
                *children,
                ChildSpec(LINK, Recorder, lambda _peers: self.link),
            ),
            Strategy.ONE_FOR_ALL,
            RestartBudget(times=0),
        )
        self._root = self.shell.dispatcher.spawn(self._tree)
        self.workers: list[ActorRef] = [self._tree.children[worker_child(index)] for index in range(n_workers)]
        self.stored: dict[ObjectId, CachedObject] = {}
        self.asked: list[ObjectId] = []
        self.answers_needs = True
        self._results: dict[tuple[TaskId, int], list[RunResult]] = {}
        self.waits: list[tuple[str, TaskId]] = []
        """the reported waits of runs: `blocked` and `unblocked`, in order"""
        self.given_back: list[tuple[TaskId, int]] = []
        self.gone: list[int] = []
        """the processes that were reported as ended"""
        self._condition: Callable[[], Any] = lambda: True
        self._deadline = 0.0
        self._new_id = IdSource()

    # The shell

    def receive(self) -> bool:
        for message in self.link.messages:
            self._hear(message)
        self.link.messages.clear()
        for need in self.cache.take(NeedObject):
            self.asked.append(need.object_id)
            if self.answers_needs:
                need.worker.send(ObjectFound(self.stored[need.object_id]))
        if self._condition() or time.monotonic() > self._deadline:
            self.shell.loop.stop()
        return False

    def flush(self) -> bool:
        return False

    def _hear(self, message: Any) -> None:
        kind = type(message)
        if kind is Batch[RunResult]:
            for result in message:
                self._results.setdefault((result.task_id, result.attempt), []).append(result)
        elif kind is Batch[RecallResponse]:
            self.given_back += [(item.task_id, item.attempt) for item in message]
        elif kind is ExecutorProcessGone:
            self.gone.append(message.number)
        elif kind in {Batch[RunBlocked], Batch[RunUnblocked]}:
            self.waits += [("blocked" if kind is Batch[RunBlocked] else "unblocked", run.task_id) for run in message]

    def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> None:
        self._condition, self._deadline = condition, time.monotonic() + seconds
        self.shell._edge = self
        ticker = self.shell.loop.call_later(0, self._tick)
        self.shell.loop.run_forever()
        ticker.cancel()
        assert self.shell.exit_code == 0, "an actor of the executor failed"
        assert condition(), f"not within {seconds} s; received: {self._results}, {self.waits}, {self.given_back}"

    def _tick(self) -> None:
        """Check the condition regularly, because files and processes change without a message."""
        self.shell.turn()
        self.shell.loop.call_later(0.01, self._tick)

    def settle(self, seconds: float = 0.2) -> None:
        """Run the shell for `seconds`, in which something must not happen."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end)

    def needs(self, part: ExecutorFeature) -> None:
        """Skip the test unless the executor declares this feature."""
        if part not in self.parts:
            pytest.skip(f"the engine does not declare {part}")

    # Mail in

    def function(self, function: Callable[..., Any]) -> ObjectId:
        return self.store(function_to_frames(DEFAULT, function))

    def store(self, frames: Sequence[Any], object_id: ObjectId | None = None) -> ObjectId:
        frames = [bytes(frame) for frame in frames]
        object_id = object_id or content_id(frames)
        self.stored[object_id] = CachedObject(object_id, frames, None)
        return object_id

    def value(self, value: Any, object_id: ObjectId | None = None) -> Stored:
        return Stored(self.store(to_frames(DEFAULT, value), object_id))

    def task(
        self,
        function: Callable[..., Any] | ObjectId,
        *arguments: Any,
        worker: int = 0,
        priority: int = 0,
        account: Account = NO_ACCOUNT,
        **keywords: Any,
    ) -> RunTask:
        function_id = self.function(function) if callable(function) else function
        block, object_ids, carried = b"", b"", []
        for name, argument in [*(("", value) for value in arguments), *keywords.items()]:
            if isinstance(argument, Stored):
                block += argument_block(OBJECT, argument.object_id, name)
                object_ids += argument.object_id
            elif size_of(frames := to_frames(DEFAULT, argument)) > INLINE_BYTES:
                block += frames_argument(frames, name)
                carried += frozen(frames)
            else:
                block += argument_block(VALUE, bytes(frames[0]), name)
        task = RunTask(TaskId(self._new_id()), worker, 1, function_id, block, object_ids, priority)
        number, owner = account
        return replace(task, frames=carried, account=number, owner=owner)

    def run(self, *tasks: RunTask) -> None:
        """Send tasks to their workers, in one batch per worker."""
        for index, worker in enumerate(self.workers):
            own = [task for task in tasks if task.worker == index]
            if own:
                worker.send(Batch[RunTask](own))

    def cancel(self, *tasks: RunTask) -> None:
        for task in tasks:
            self.workers[task.worker].send(Batch[RunCancel]([RunCancel(task.task_id, task.worker, task.attempt)]))

    def recall(self, *tasks: RunTask) -> None:
        for task in tasks:
            request = RecallRequest(task.task_id, task.worker, task.attempt)
            self.workers[task.worker].send(Batch[RecallRequest]([request]))

    # Mail out

    def results(self, *tasks: RunTask) -> list[RunResult]:
        """Wait for the results of these runs and return them. Check that each run has exactly one."""
        keys = [(task.task_id, task.attempt) for task in tasks]
        self.until(lambda: all(key in self._results for key in keys))
        assert [len(self._results[key]) for key in keys] == [1] * len(keys)
        return [self._results[key][0] for key in keys]

    def statuses(self, *tasks: RunTask) -> list[TaskStatus]:
        return [TaskStatus(result.status) for result in self.results(*tasks)]

    def has_result(self, task: RunTask) -> bool:
        return (task.task_id, task.attempt) in self._results

    def waits_of(self, task: RunTask) -> list[str]:
        return [what for what, task_id in self.waits if task_id == task.task_id]

    def everything_was_answered_once(self) -> bool:
        return all(len(results) == 1 for results in self._results.values())

    def end(self) -> None:
        """End all actors as the agent does."""
        self.shell.dispatcher.end(self._root)
        self.shell.dispatcher.close()
        self.shell.loop.close()
