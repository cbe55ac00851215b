"""TaskContext: what a client should know of the process it is in: nothing, or that this process runs tasks.

Set once by a processor, before its first task; read by clients, which say here when a thread has to wait for other
tasks: then the task gives up its place. It lies below both, because neither imports the other. A process that was
forked from one that runs tasks runs none itself. Must never: import anything that is not below it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from scaler.ids import NO_ID, TaskId

_NOTHING_HAPPENS = nullcontext()


class Voice(Protocol):
    """What a wait needs of the client that it is a wait for."""

    address: str
    is_nested: bool
    """whether it is a client that only tasks have"""

    def rest(self, wait: int, is_over: Callable[[], bool]) -> None:
        """Say to the scheduler that this process does nothing but wait, whenever all else is said and `is_over` is not
        true. A `wait` of 0: not any more. For any thread, and for handlers of signals.
        """


class TaskContext:
    """A process that runs no tasks: what clients find unless a processor says otherwise."""

    address: str | None = None
    """where the scheduler listens whose tasks are run here"""
    agent_token = NO_ID
    """what the clients of this process show the scheduler as a proof of where they are"""
    processor = 0
    """the number of this process, never used again by its agent"""
    account = 0
    """on whose share the task runs that is executed, a number of its scheduler; what it submits is on the same"""

    @property
    def task(self) -> int:
        """The number of the task that is executed, from 1; 0: none."""
        return 0

    @property
    def child_priority(self) -> int:
        """The priority of tasks that are submitted now: those of a task are one deeper than itself."""
        return 0

    def wait(
        self,
        voice: Voice | None = None,  # noqa: ARG002
        is_over: Callable[[], bool] | None = None,  # noqa: ARG002
        seconds: float | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Return what to hold while this thread waits for other tasks. To leave it may take until there is a place.

        Args:
            voice: the client whose scheduler alone says what ends the wait. Without one the process is not stopped.
            is_over: whether that was said.
            seconds: how long the wait takes at most; None: as long as need be.
        """
        return _NOTHING_HAPPENS

    def expect(self, voice: Voice | None = None) -> Callable[[], None]:  # noqa: ARG002
        """Say that something in this task may be waiting for other tasks, where nobody can see that.

        Args:
            voice: the client that is used for it.

        Returns:
            what to call, once or more often, when that is over.
        """
        return _nothing

    def submitted(self, task_id: TaskId, cancel: Callable[[TaskId], None]) -> None:
        """Say that the task that is executed has submitted one, to be cancelled with it."""

    def keep_while(self, is_needed: Callable[[], bool]) -> None:
        """Ask for this process not to be ended while `is_needed` returns true."""


def _nothing() -> None:
    pass


current = TaskContext()

connect: Callable[[], None] = _nothing
"""Makes the connection that clients in tasks will most likely need. Set by the clients, which alone know how."""


def enter(task_context: TaskContext) -> None:
    """Say where the clients of this process are."""
    global current  # noqa: PLW0603 - there is one process
    current = task_context


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: enter(TaskContext()))
