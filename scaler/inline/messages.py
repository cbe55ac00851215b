"""What the threads of the engine `inline` tell their worker.

    TaskThread --tell--> InlineWorker

Each names the thread and the number of its task, so that news of a task that has ended is recognised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.message import message

if TYPE_CHECKING:
    from scaler.inline.thread import TaskThread
    from scaler.wire.messages.worker import RunResult


@message
class TaskEnded:
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
