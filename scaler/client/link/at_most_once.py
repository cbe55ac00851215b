"""At most once: marks calls with the option `at_most_once` that may have started, and makes claims of results.

Used by the open work. A claim runs no function: it requests from the next scheduler a result that an agent may have. A
call is sent unmarked only if no scheduler can have received it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from scaler.client.calls.entry import Entry, GraphEntry
from scaler.ids import TaskId
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import GraphTask, Task
from scaler.wire.messages.common import ObjectInstruction


def is_at_most_once(options: bytes) -> bool:
    """Return whether a call must not start a second time."""
    return bool(options) and RunOptions.decode(options).at_most_once


def mark_possibly_started(tasks: dict[TaskId, Entry], graphs: Iterable[GraphEntry], unsent: Collection[object]) -> None:
    """Mark, in place, the open at-most-once calls that may have started: all except the calls of `unsent` items."""
    new: set[bytes] = {item.task_id for item in unsent if isinstance(item, Task)}
    new |= {item.graph_id for item in unsent if isinstance(item, GraphTask)}
    for task_id, entry in tasks.items():
        if is_at_most_once(entry[0].options) and task_id not in new:
            tasks[task_id] = (replace(entry[0], options=_marked(entry[0].options)), *entry[1:])
    for graph in graphs:
        if is_at_most_once(graph.spec.options) and graph.spec.graph_id not in new:
            graph.spec = replace(graph.spec, options=_marked(graph.spec.options))


def claim_of_task(task: Task) -> Task:
    """Return a task that claims the result of `task` without running the function."""
    return replace(task, payload=b"", object_ids=b"", frames=(), options=_marked(task.options))


def claim_of_node(graph: GraphEntry, task_id: TaskId) -> tuple[Task, ObjectInstruction]:
    """Return a task that claims the result of a graph's node; also return the function of the node."""
    node = graph.nodes[graph.position_of(task_id) - len(graph.inputs)]
    function = next(each for each in graph.functions if each.object_id == node.function_id)
    spec = graph.spec
    options = _marked(spec.options)
    terms = spec.priority, spec.name, options, spec.account
    return Task(task_id, node.function_id, b"", b"", *terms, owner=spec.owner), function


def _marked(options: bytes) -> bytes:
    return RunOptions.decode(options).resubmitted()
