"""EngineCall: a task with everything that it needs, and the code that runs it in a process of the engine.

The engine host creates a call without unpickling its content. Scaler must be installed in the process that runs the
call. Clients inside the task find the scheduler through `CallContext`. After the task, its context and values are
removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from scaler.executors.inline.task_context import by_thread
from scaler.ids import ObjectId
from scaler.processor.execution.one_call import run_call
from scaler.processor.execution.values import LoadedValues
from scaler.task_context import CurrentTask, TaskContext, WaitReporter
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.priority import of_child
from scaler.wire.messages.worker import RunResult, RunTask

_NO_WAIT = nullcontext()


class EngineCall(NamedTuple):
    """A task and its objects, in the form in which an engine pickles and sends them."""

    task: RunTask
    objects: dict[ObjectId, list[bytes]]
    """the frames of the task's function, and of the objects among its arguments"""
    address: str
    """the address of the scheduler, for clients inside the task"""
    agent_token: bytes
    """the token with which clients inside the task prove to the scheduler which agent runs the task"""

    @property
    def processor(self) -> int:
        """The processor number of clients inside the task: the task's attempt, which no other task of the agent has."""
        return self.task.attempt


class CallContext(TaskContext):
    """The task context of clients in one task of an engine."""

    def __init__(self, call: EngineCall) -> None:
        self.address, self.agent_token, self.processor = call.address, call.agent_token, call.processor
        self.account = call.task.account, call.task.owner
        self._task = call.task
        self.values = LoadedValues()
        for object_id, frames in call.objects.items():
            self.values.store(object_id, frames)
        limit_ms = RunOptions.decode(call.task.options).timeout_ms
        self._ends_at = time.monotonic() + limit_ms / 1000 if limit_ms else None
        self._closers: list[Callable[[], None]] = []
        self._waits = 0
        self._is_waiting = False

    @property
    def task(self) -> int:
        return 1

    @property
    def child_priority(self) -> int:
        return of_child(self._task.priority)

    def describe_task(self) -> CurrentTask:
        return self._described

    @cached_property
    def _described(self) -> CurrentTask:
        task = self._task
        seed = RunOptions.decode(task.options).seed_of(task.task_id)
        return CurrentTask(task.task_id, self.values.name_of(task), task.attempt, "", self._ends_at, *seed)

    def wait(
        self,
        reporter: WaitReporter | None = None,
        is_over: Callable[[], bool] | None = None,
        seconds: float | None = None,  # noqa: ARG002 - it is the caller who gives up
    ) -> AbstractContextManager[None]:
        if reporter is None or is_over is None or self._is_waiting:
            return _NO_WAIT
        return self._waiting(reporter, is_over)

    @contextmanager
    def _waiting(self, reporter: WaitReporter, is_over: Callable[[], bool]) -> Iterator[None]:
        self.begin_wait(reporter, is_over)
        try:
            yield
        finally:
            self.end_wait(reporter)

    def begin_wait(self, reporter: WaitReporter, is_over: Callable[[], bool]) -> None:
        """Report that this task waits; the agent then frees its slot."""
        self._is_waiting = True
        self._waits += 1
        reporter.rest(self._waits, is_over)

    def end_wait(self, reporter: WaitReporter) -> None:
        self._is_waiting = False
        reporter.rest(0, bool)

    def keep_while(self, is_needed: Callable[[], bool], close: Callable[[], None] | None = None) -> None:  # noqa: ARG002
        if close is not None:
            self._closers.append(close)

    def end(self) -> None:
        """Close the connections of the clients in the task: they have its processor number, which no later task has."""
        closers, self._closers = self._closers, []
        for close in closers:
            close()


def ended(task: RunTask, status: TaskStatus, payload: str | bytes = b"", failure: str = "") -> RunResult:
    """Return the result of a run whose function has not returned a value."""
    data = payload.encode() if isinstance(payload, str) else payload
    return RunResult(task.task_id, task.worker, task.attempt, status, data, 0, (), b"", failure)


def run(call: EngineCall, new_context: type[CallContext] = CallContext) -> RunResult:
    """Run the task of a call in this process of the engine, and return the result of the run."""
    with in_context(call, new_context) as values:
        result = run_call(call.task, values)
        return replace(result, frames=[bytes(frame) for frame in result.frames])


@contextmanager
def in_context(call: EngineCall, new_context: type[CallContext] = CallContext) -> Iterator[LoadedValues]:
    """Run a block with the task context of a call in this thread. Yield the values that the task needs."""
    context: Any = new_context(call)
    by_thread().enter(context)
    try:
        yield context.values
    finally:
        by_thread().leave(context)
        context.end()
