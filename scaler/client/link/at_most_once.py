"""At most once: marks calls with the option `at_most_once` that may have started, and makes claims of results.

Used by the open work. A claim runs no function: it requests from the next scheduler a result that an agent may have. A
call is sent unmarked only if no scheduler can have received it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from scaler.client.calls.entry import Entry, GraphCalls
from scaler.ids import TaskId
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import Task


def is_at_most_once(options: bytes) -> bool:
    """Return whether a call must not start a second time."""
    return bool(options) and RunOptions.decode(options).at_most_once


def mark_possibly_started(tasks: dict[TaskId, Entry], graphs: Iterable[GraphCalls], unsent: Collection[object]) -> None:
    """Mark, in place, the open at-most-once calls that may have started: all except the calls of `unsent` items."""
    new = {item.task_id for item in unsent if isinstance(item, Task)}
    for task_id, entry in tasks.items():
        if is_at_most_once(entry[0].options) and task_id not in new:
            tasks[task_id] = (replace(entry[0], options=_marked(entry[0].options)), *entry[1:])
    for graph in graphs:
        priority, name, options, account, owner = graph.terms
        if is_at_most_once(options) and graph.id_of(0) not in new:  # all tasks of a graph are queued at once
            graph.terms = (priority, name, _marked(options), account, owner)


def claim_of_task(task: Task) -> Task:
    """Return a task that claims the result of `task` without running the function."""
    return replace(task, payload=b"", object_ids=b"", frames=(), inputs=b"", options=_marked(task.options))


def _marked(options: bytes) -> bytes:
    return RunOptions.decode(options).resubmitted()
