"""What clients find around them in a process where some threads run tasks and others do not.

    user's thread ----+                 +--> what was there before
    thread of a task -+--> ByThread ----+
                                        +--> InlineTaskContext of that thread

Asked by clients, in any thread. A thread that a task has started itself cannot be told from the user's own. When such a
thread waits with the client of a task, it is not known which task it belongs to, so all that run here give up their
place: rather one task too many at once than a task that waits for its own place for ever.

Must never: let a thread that runs no task find one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from scaler import task_context
from scaler.ids import TaskId
from scaler.processor.task_context import ProcessorTaskContext
from scaler.task_context import CurrentTask, TaskContext, WaitReporter

InlineTaskContext = ProcessorTaskContext
"""Of one thread: it is to a worker here what a processor is to another."""


class _OfThread(threading.local):
    context: TaskContext | None = None


class ByThread(TaskContext):
    """Looks up who asks.

    Args:
        others: what all threads find that run no task here.
    """

    def __init__(self, others: TaskContext) -> None:
        self._others = others
        self._mine = _OfThread()
        self._inline: set[InlineTaskContext] = set()

    # For threads of tasks

    def enter(self, context: InlineTaskContext) -> None:
        """This thread runs tasks from now on."""
        self._mine.context = context
        self._inline.add(context)

    def leave(self, context: InlineTaskContext) -> None:
        """This thread runs no more tasks."""
        self._mine.context = None
        self._inline.discard(context)

    # For clients

    def _here(self) -> TaskContext:
        return self._mine.context or self._others

    @property
    def address(self) -> str | None:  # type: ignore[override]
        return self._here().address

    @property
    def agent_token(self) -> bytes:  # type: ignore[override]
        return self._here().agent_token

    @property
    def processor(self) -> int:  # type: ignore[override]
        return self._here().processor

    @property
    def account(self) -> int:  # type: ignore[override]
        return self._here().account

    @property
    def task(self) -> int:
        """As in any context; in a thread that runs none, 1 while any thread here does: it may have been started by
        one of those.
        """
        return self._here().task or int(any(context.task for context in list(self._inline)))

    def describe_task(self) -> CurrentTask | None:
        return self._here().describe_task()

    def report(self, task: CurrentTask, line: str) -> None:
        self._here().report(task, line)

    @property
    def child_priority(self) -> int:
        return self._here().child_priority

    def wait(
        self,
        reporter: WaitReporter | None = None,
        is_over: Callable[[], bool] | None = None,
        seconds: float | None = None,
    ) -> AbstractContextManager[None]:
        concerned = self._concerned(reporter)
        if concerned is not None:
            return _Expecting(concerned)
        return self._here().wait(reporter, is_over, seconds)

    def expect(self, reporter: WaitReporter | None = None) -> Callable[[], None]:
        concerned = self._concerned(reporter)
        if concerned is None:
            return self._here().expect(reporter)
        expecting = _Expecting(concerned)
        expecting.__enter__()
        return expecting.__exit__

    def submitted(self, task_id: TaskId, cancel: Callable[[TaskId], None]) -> None:
        self._here().submitted(task_id, cancel)

    def keep_while(self, is_needed: Callable[[], bool], close: Callable[[], None] | None = None) -> None:
        self._here().keep_while(is_needed, close)

    def _concerned(self, reporter: WaitReporter | None) -> list[InlineTaskContext] | None:
        """Return the contexts whose tasks may wait, if this is an unknown thread with a client that only tasks have."""
        if self._mine.context is not None or reporter is None or not reporter.is_nested:
            return None
        concerned = [context for context in list(self._inline) if context.address == reporter.address]
        return concerned or None


class _Expecting(AbstractContextManager[None]):
    """A wait that may be that of any of some tasks."""

    def __init__(self, contexts: list[InlineTaskContext]) -> None:
        self._contexts = contexts
        self._ends: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._ends = [context.expect() for context in self._contexts]

    def __exit__(self, *_error: object) -> None:
        for end in self._ends:
            end()


_entering = threading.Lock()


def by_thread() -> ByThread:
    """Return the one of this process; from the first call on, clients ask it."""
    with _entering:
        current = task_context.current
        if not isinstance(current, ByThread):
            current = ByThread(current)
            task_context.enter(current)
        return current
