"""TaskThread: runs tasks, one at a time, in a thread of the agent's process.

Its worker hands it tasks and permissions; it tells its worker how each ended, and when one waits for others.

Must never: let an exception of a task out of that task's result, or run on behind a wait without permission.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Any, NamedTuple

import pykka

from scaler.actors.kit import ActorRef
from scaler.client.calls.snapshot import frozen
from scaler.inline.task_context import ByThread, InlineTaskContext
from scaler.message import message
from scaler.processor.failure import describe_failure
from scaler.processor.forked import end_forked
from scaler.processor.meter import Meter
from scaler.processor.task_context import Birth
from scaler.processor.values import Values
from scaler.serialization import INLINE_BYTES, Frames, read_arguments, size_of, to_frames
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.processor import ResumeRequest, TaskBlocked, TaskUnblocked
from scaler.wire.messages.worker import RunResult, RunTask
from scaler.wire.structs import RunOptions

LONGEST_US = 2**32 - 1
JOIN_SECONDS = 1.0

_EVERYTHING = 0
"""The permission for all tasks that may still ask, because no worker is left to ask."""


# What the threads tell their worker. Each message names the thread and the number of its task, so that news of a task
# that has ended is recognised.


@message
class TaskEnded:
    """The task has ended, in whatever way."""

    thread: TaskThread
    result: RunResult


@message
class TaskWaits:
    """It waits for other tasks."""

    thread: TaskThread
    number: int


@message
class TaskAsks:
    """What it waited for is there: it asks to go on, and stands still until it may."""

    thread: TaskThread
    number: int


@message
class TaskGoesOn:
    """It does not wait any more, and did not ask."""

    thread: TaskThread
    number: int


class Job(NamedTuple):
    """A task with what it needs."""

    number: int
    task: RunTask
    values: Values


_NEWS: dict[type, Callable[[TaskThread, int], object]] = {
    TaskBlocked: TaskWaits,
    ResumeRequest: TaskAsks,
    TaskUnblocked: TaskGoesOn,
}


class TaskThread:
    """One thread.

    Args:
        name: of its worker.
        worker: hears of its tasks.
        contexts: where clients look up what this thread does.
    """

    def __init__(self, name: str, worker: ActorRef, birth: Birth, address: str, contexts: ByThread) -> None:
        self._worker = worker
        self._contexts = contexts
        self._words = [0]
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._permissions: SimpleQueue[int] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"scaler-task-{name}", daemon=True)
        self.context = InlineTaskContext(
            birth, address, self._words, self._say, self._await_permission, thread=self._thread
        )
        self._thread.start()

    # For the worker

    def hand(self, job: Job) -> None:
        """Run a task; the one before has ended."""
        self._jobs.put(job)

    def permit(self, number: int) -> None:
        """Let the task with this number go on, which asked for it."""
        self._permissions.put(number)

    def end(self) -> None:
        """End the thread, after the task that it runs."""
        self._permissions.put(_EVERYTHING)
        self._jobs.put(None)

    def join(self) -> None:
        """Wait for the end; for a thread that runs no task."""
        self._thread.join(JOIN_SECONDS)

    # The thread

    def _serve(self) -> None:
        self._contexts.enter(self.context)
        try:
            while (job := self._jobs.get()) is not None:
                self._words[0] = job.number
                self.context.priority, self.context.account = job.task.priority, job.task.account
                result = _run(job)
                self._words[0] = 0
                self.context.forget_children()
                del job
                self._tell(TaskEnded(self, result))
                del result
        finally:
            self._contexts.leave(self.context)

    def _await_permission(self, number: int) -> None:
        while (permitted := self._permissions.get()) != number:
            if permitted == _EVERYTHING:
                self._permissions.put(_EVERYTHING)
                return

    def _say(self, items: list[Any]) -> None:
        for item in items:
            self._tell(_NEWS[type(item)](self, item.number))

    def _tell(self, news: object) -> None:
        with contextlib.suppress(pykka.ActorDeadError):  # the agent has ended meanwhile
            self._worker.tell(news)


def _run(job: Job) -> RunResult:
    task, values = job.task, job.values
    status, payload = TaskStatus.SUCCESS, b""
    frames: Frames = ()
    meter: Meter | None = None
    process = os.getpid()
    started_ns, ended_ns = perf_counter_ns(), 0
    try:
        serializer, function, value = values.functions.get(task.function_id) or values.read_function(task.function_id)
        if task.options and RunOptions.decode(task.options).profiling:
            function = meter = Meter(function)
        positional, keywords = read_arguments(task.payload, value, partial(values.stored, serializer))
        started_ns = perf_counter_ns()
        returned = function(*positional, **keywords)
        ended_ns = perf_counter_ns()
        if os.getpid() != process:
            end_forked(None)
        frames = frozen(to_frames(serializer, returned))
        if len(frames) == 1 and size_of(frames) <= INLINE_BYTES:
            payload, frames = bytes(frames[0]), ()
    except BaseException as error:  # noqa: BLE001 - also SystemExit and KeyboardInterrupt end only the task
        ended_ns = ended_ns or perf_counter_ns()
        if os.getpid() != process:
            end_forked(error)
        status, payload, frames = TaskStatus.FAILED, describe_failure(error).encode(), ()
    duration_us = min((ended_ns - started_ns) // 1000, LONGEST_US)
    profile = meter.profile if meter is not None else b""
    return RunResult(task.task_id, task.worker, task.attempt, status, payload, duration_us, frames, profile)
