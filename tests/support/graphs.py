"""Graphs as the client keeps them, made from their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scaler.client.calls.entry import GraphCalls
from scaler.ids import index_of
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import ObjectInstruction


def graph_calls(tasks: Sequence[Task], functions: Iterable[ObjectInstruction], **more: Any) -> GraphCalls:
    """Return a graph of tasks that have the same terms. `more`: further arguments of `GraphCalls`."""
    first = tasks[0]
    terms = first.priority, first.name, first.options, first.account, first.owner
    calls = [
        (each.function_id, each.payload, each.object_ids, each.frames, each.dependencies, each.unwanted)
        for each in tasks
    ]
    indices = [index_of(each.task_id) for each in tasks]
    return GraphCalls(first.graph_id, terms, calls, functions, indices=indices, **more)
