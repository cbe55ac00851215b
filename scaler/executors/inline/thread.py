"""TaskThread: runs tasks, one at a time, in a thread of the agent's process.

An exception of a task becomes the result of this task. When the tasks that a task waits for have ended, it resumes only
with permission.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import pykka

from scaler.executors.inline.task_context import ContextByThread
from scaler.kit import ActorRef
from scaler.message import message
from scaler.processor.execution.one_call import run_call
from scaler.processor.execution.task_context import ProcessorSpec, ProcessorTaskContext
from scaler.processor.execution.values import LoadedValues
from scaler.wire.messages.processor import ResumeRequest, TaskBlocked, TaskUnblocked
from scaler.wire.messages.worker import RunResult, RunTask

JOIN_SECONDS = 1.0

_EVERYTHING = 0
"""The permission to resume for all tasks of a thread, even for later requests: given when the thread is to end."""


# The reports of the threads to their worker. Each names the thread and the number of its task, so that a late report of
# an ended task is recognised.


@message
class TaskEnded:
    """Runner to worker: the task has finished, failed, or was cancelled."""

    thread: Runner
    result: RunResult


@message
class ThreadBlocked:
    """Thread to worker: the task waits for other tasks."""

    thread: Runner
    number: int


@message
class ThreadResumable:
    """Thread to worker: the tasks that a blocked task waited for have ended, and it waits for permission to resume."""

    thread: Runner
    number: int


@message
class ThreadUnblocked:
    """Thread to worker: the task has resumed without permission, because it gave up its wait."""

    thread: Runner
    number: int


@message
class ThreadProgress:
    """Thread to worker: the task has reported its progress, which `take_report` returns."""

    thread: TaskThread
    number: int


class Runner(Protocol):
    """Runs the tasks of a worker, one at a time, in a thread or in a slot of an engine."""

    def hand(self, prepared: PreparedTask) -> None:
        """Run a task. The previous one has ended."""

    def cancel(self) -> None:
        """Drop the result of the task."""

    def permit(self, number: int) -> None:
        """Resume the task with this number, which has requested permission."""

    def end(self) -> None:
        """End the runner when its task has ended."""

    def join(self) -> None:
        """Wait for the end of a runner that runs no task."""


class PreparedTask(NamedTuple):
    """A task with the objects that it needs."""

    number: int
    task: RunTask
    values: LoadedValues


_NEWS: dict[type, Callable[[TaskThread, int], object]] = {
    TaskBlocked: ThreadBlocked,
    ResumeRequest: ThreadResumable,
    TaskUnblocked: ThreadUnblocked,
}


class TaskThread:
    """Runs the tasks of a worker in one thread; `contexts` stores the context of this thread for clients."""

    def __init__(
        self, name: str, worker: ActorRef, spec: ProcessorSpec, address: str, contexts: ContextByThread
    ) -> None:
        self._worker = worker
        self._contexts = contexts
        self._words = [0] * 5
        self._prepared: SimpleQueue[PreparedTask | None] = SimpleQueue()
        self._permissions: SimpleQueue[int] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"scaler-task-{name}", daemon=True)
        self.context = ProcessorTaskContext(
            spec, address, self._words, self._send_news, self._await_permission, thread=self._thread
        )
        self.context.send_report = self._report
        self._reports: deque[tuple[int, str]] = deque(maxlen=1)
        self._is_report_known = False
        self._thread.start()

    # For the worker

    def hand(self, prepared: PreparedTask) -> None:
        """Run a task. The previous one has ended."""
        self._prepared.put(prepared)

    def cancel(self) -> None:
        """Cancel the children of the running task. The task itself continues, and the worker drops its result."""
        self.context.cancel_children()

    def permit(self, number: int) -> None:
        """Resume the task with this number, which has requested permission."""
        self._permissions.put(number)

    def take_report(self) -> tuple[int, str] | None:
        """Remove and return the last progress report, if any: its time in microseconds since 1970, and its text."""
        self._is_report_known = False  # before the next line: a later report is announced again
        return self._reports.pop() if self._reports else None

    def end(self) -> None:
        """End the thread when its task has ended."""
        self._permissions.put(_EVERYTHING)
        self._prepared.put(None)

    def join(self) -> None:
        """Wait for the end of a thread that runs no task."""
        self._thread.join(JOIN_SECONDS)

    # The thread

    def _serve(self) -> None:
        self._contexts.enter(self.context)
        try:
            while (prepared := self._prepared.get()) is not None:
                self._words[4] = time.monotonic_ns()
                self._words[0] = prepared.number
                self.context.run, self.context.name_of = prepared.task, prepared.values.name_of
                result = run_call(prepared.task, prepared.values)
                self._words[0] = 0
                self.context.forget_children()
                del prepared
                self._notify(TaskEnded(self, result))
                del result
        finally:
            self._contexts.leave(self.context)

    def _await_permission(self, number: int) -> None:
        while (permitted := self._permissions.get()) != number:
            if permitted == _EVERYTHING:
                self._permissions.put(_EVERYTHING)
                return

    def _report(self, line: str) -> None:
        self._reports.append((time.time_ns() // 1000, line))
        if not self._is_report_known:
            self._is_report_known = True
            self._notify(ThreadProgress(self, self._words[0]))

    def _send_news(self, items: list[Any]) -> None:
        for item in items:
            self._notify(_NEWS[type(item)](self, item.number))

    def _notify(self, news: object) -> None:
        with contextlib.suppress(pykka.ActorDeadError):  # the agent has ended meanwhile
            self._worker.tell(news)
