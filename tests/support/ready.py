"""Tasks and workers for a policy under test: the facts about tasks that it receives, with names for their actors."""

from __future__ import annotations

from typing import Any

from scaler.actors.messages.tasks import TaskReady
from scaler.ids import ID_BYTES, ObjectId, TaskId
from scaler.wire.messages.client import Task as Work

SHORT = ObjectId(b"s" * ID_BYTES)

Task = TaskReady


def work(function_id: ObjectId = SHORT, priority: int = 0, options: bytes = b"", rows: int = 0) -> Work:
    """Return a task as a client has submitted it."""
    return Work(TaskId(b"t" * ID_BYTES), function_id, b"", b"", priority, "", options, rows=rows)


def task(
    name: Any,
    account: int = 0,
    priority: int = 0,
    goes_first: bool = False,
    attempt: int = 1,
    function_id: ObjectId = SHORT,
) -> Task:
    return Task(name, work(function_id, priority), attempt, goes_first, None, account, attempt == 1)


def of_map(name: Any, account: int = 0, function_id: ObjectId = SHORT, **others: Any) -> Task:
    return Task(name, work(function_id, **others), 1, False, None, account, True)
