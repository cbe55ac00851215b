"""ContextByThread: the task context of a process in which some threads run tasks and others do not.

    user's thread ----+                 +--> the previous context of the process
    thread of a task -+--> ContextByThread ----+
                                        +--> ProcessorTaskContext of that thread

A thread that was started by a task looks like a thread of the user. If such a thread waits with the client of a task,
it is unknown which task has started the thread. So all tasks of the process that use the client's scheduler give up
their slots. One running task too many is better than a task that waits for its own slot forever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from scaler import task_context
from scaler.processor.execution.task_context import ProcessorTaskContext
from scaler.task_context import TaskContext, WaitReporter


class _ThreadContext(threading.local):
    context: TaskContext | None = None


def _of_thread(name: str) -> Any:
    """Return a property that reads the attribute `name` from the context of the calling thread."""
    return property(lambda self: getattr(self._current(), name))


class ContextByThread(TaskContext):
    """The task context of a process: the context of the calling thread's task; in a thread without a task, `others`."""

    def __init__(self, others: TaskContext) -> None:
        self._others = others
        self._mine = _ThreadContext()
        self._inline: set[ProcessorTaskContext] = set()

    # For threads of tasks

    def enter(self, context: ProcessorTaskContext) -> None:
        """Use this context for clients in the calling thread, which runs tasks."""
        self._mine.context = context
        self._inline.add(context)

    def leave(self, context: ProcessorTaskContext) -> None:
        """Remove the context of the calling thread, which runs no further task."""
        self._mine.context = None
        self._inline.discard(context)

    # For clients

    def _current(self) -> TaskContext:
        return self._mine.context or self._others

    address = _of_thread("address")
    agent_token = _of_thread("agent_token")
    processor = _of_thread("processor")
    account = _of_thread("account")
    preparing = _of_thread("preparing")
    child_priority = _of_thread("child_priority")
    describe_task = _of_thread("describe_task")
    report = _of_thread("report")
    submitted = _of_thread("submitted")
    keep_while = _of_thread("keep_while")

    @property
    def task(self) -> int:
        """The number of the calling thread's task. In a thread without a task: 1 while any task runs, otherwise 0."""
        return self._current().task or int(any(context.task for context in list(self._inline)))

    def wait(
        self,
        reporter: WaitReporter | None = None,
        is_over: Callable[[], bool] | None = None,
        seconds: float | None = None,
    ) -> AbstractContextManager[None]:
        concerned = self._concerned(reporter)
        if concerned is not None:
            return _expecting(concerned)
        return self._current().wait(reporter, is_over, seconds)

    def expect(self, reporter: WaitReporter | None = None) -> Callable[[], None]:
        concerned = self._concerned(reporter)
        if concerned is None:
            return self._current().expect(reporter)
        expecting = ExitStack()
        for context in concerned:
            expecting.callback(context.expect())
        return expecting.close

    def _concerned(self, reporter: WaitReporter | None) -> list[ProcessorTaskContext] | None:
        """Return the contexts of the tasks that may have started the calling thread. Return None if the thread runs a
        task itself, or does not wait with a client of a task.
        """
        if self._mine.context is not None or reporter is None or not reporter.is_nested:
            return None
        concerned = [context for context in list(self._inline) if context.address == reporter.address]
        return concerned or None


@contextmanager
def _expecting(contexts: list[ProcessorTaskContext]) -> Iterator[None]:
    ends = [context.expect() for context in contexts]
    try:
        yield
    finally:
        for end in ends:
            end()


_entering = threading.Lock()


def by_thread() -> ContextByThread:
    """Return the `ContextByThread` of this process. The first call installs it for all clients."""
    with _entering:
        current = task_context.current
        if not isinstance(current, ContextByThread):
            current = ContextByThread(current)
            task_context.enter(current)
        return current
