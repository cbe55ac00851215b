"""Needed results: the graphs of a client, and the results of its tasks that other tasks need.

Used by the open work. The scheduler learns the end of a task that it has, and starts the tasks that need the result.
This module sends it all other results: those that it requests, and those that the client had before it submitted a task
that needs them. A lost result is made again step by step: the scheduler requests it, and the client sends its call,
alone; then the scheduler requests what this call needs and is also lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any, Protocol
from weakref import WeakValueDictionary

from scaler.client.calls.entry import Call, Entry, GraphCalls, MakeError, Sink, needs_of
from scaler.client.calls.inputs import Input
from scaler.client.link.at_most_once import is_at_most_once
from scaler.client.link.large_results import LargeResults, UnreadResult
from scaler.ids import PREFIX_BYTES, GraphId, ObjectId, TaskId
from scaler.wire.messages.client import InputResult, TaskResult
from scaler.wire.messages.common import ObjectInstruction, TaskStatus


class OpenGraphs:
    """The open graphs of a client, in the order in which they were added, and ended graphs whose calls are kept."""

    def __init__(self) -> None:
        self.by_id: dict[GraphId, GraphCalls] = {}
        """the open graphs; read-only outside this class"""
        self._kept: WeakValueDictionary[bytes, GraphCalls] = WeakValueDictionary()
        """prefix of the ids of a graph's tasks -> the graph, while it is open, or anything else keeps its calls"""

    def __iter__(self) -> Iterator[GraphCalls]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def add(self, graph: GraphCalls) -> None:
        self.by_id[graph.graph_id] = graph
        self._kept[graph.graph_id[:PREFIX_BYTES]] = graph

    def functions(self) -> Iterator[ObjectInstruction]:
        """Yield the functions of all open graphs."""
        return (function for graph in self for function in graph.functions.values())

    def object_of(self, object_id: ObjectId) -> ObjectInstruction | None:
        """Return an object that was made for a task of a graph; None if no graph has it."""
        return next((graph.objects[object_id] for graph in self._kept.values() if object_id in graph.objects), None)

    def kept(self, task_id: TaskId) -> GraphCalls | None:
        """Return the graph, open or ended, that has a task; None if the calls of no such graph are kept."""
        graph = self._kept.get(task_id[:PREFIX_BYTES])
        return None if graph is None or task_id not in graph else graph

    def open_graph(self, task_id: TaskId) -> GraphCalls | None:
        """Return the graph of a task if that graph is open, else None."""
        graph = self.kept(task_id)
        return graph if graph is not None and graph.graph_id in self.by_id else None

    def of(self, task_id: TaskId) -> GraphCalls | None:
        """Return the graph of a wanted task whose result has not arrived; None if the task is not such a one."""
        graph = self._kept.get(task_id[:PREFIX_BYTES])
        return None if graph is None or task_id not in graph.sinks else graph

    def oldest(self) -> TaskId | None:
        """Return a wanted task of the first graph, one whose result has not arrived; None if no graph is open."""
        return next((task_id for graph in self for task_id in graph.sinks), None)

    def take_sink(self, task_id: TaskId) -> Sink:
        """Remove and return the sink of an arrived result. A graph ends with its last sink."""
        graph = self._kept[task_id[:PREFIX_BYTES]]
        sink = graph.sinks.pop(task_id)
        if not graph.sinks:
            self.by_id.pop(graph.graph_id, None)
        return sink

    def remove(self, graph: GraphCalls) -> None:
        """Remove a graph that ends without its results."""
        self.by_id.pop(graph.graph_id, None)

    def remove_all(self) -> list[GraphCalls]:
        """Remove and return all open graphs."""
        graphs, self.by_id = list(self), {}
        return graphs


_LOST = b"the result that it needs was lost, and its task cannot run again: its future no longer exists, or has failed"
_ONCE = b"the result that it needs was lost, and its task is not run again because of its option at_most_once"
_UNKNOWN = b"the client does not know the result that it needs"


class NeededWork(Protocol):
    """The methods of the open work that `NeededResults` needs."""

    out: list[Any]
    graphs: OpenGraphs
    large: LargeResults

    def is_open(self, task_id: TaskId) -> bool: ...

    def send_again(self, call: Call) -> MakeError | None: ...

    def send_now(self, task_id: TaskId) -> None: ...


class NeededResults:
    """Sends the scheduler those results of tasks of the client that it does not know and that other tasks need."""

    def __init__(self, work: NeededWork) -> None:
        self._work = work
        self._inputs: WeakValueDictionary[TaskId, Input] = WeakValueDictionary()
        """the inputs of the tasks that were sent"""
        self._unanswered: set[TaskId] = set()
        """open tasks whose results the scheduler has requested: if such a task ends without a report of the scheduler,
        the client answers
        """

    def clear(self) -> None:
        """Forget the requests of the scheduler, because the session has ended, or all tasks are cancelled."""
        self._unanswered.clear()

    def is_input(self, task_id: TaskId) -> bool:
        """Return whether tasks that were sent, and may be open, need the result of a task."""
        return task_id in self._inputs

    def send_known(self, entry: Entry) -> None:
        """Send the known results that a task needs, right after the task. The scheduler requests unknown ones."""
        inputs = {needed.task_id: needed for _, needed in needs_of(entry[4])}
        self._inputs.update(inputs)
        self._work.out.extend(filter(None, map(self._known, inputs)))

    def supply(self, object_id: ObjectId) -> bool:
        """Answer the scheduler's request for the result of a task. Return False if the task is unknown.

        Nothing is sent if the task is open: the scheduler will know its result. The same holds for a task whose
        arguments are still being serialised, and for a claimed result; the scheduler requests it again if no agent has
        it.
        """
        task_id = TaskId(object_id)
        unread = self._work.large.needed(object_id)
        known = self._known(task_id)
        if known is not None:
            self._work.out.append(known)
            return True
        needed = self._inputs.get(task_id)
        if unread is not None or self._work.is_open(task_id) or (needed is not None and needed.is_open):
            self._unanswered.add(task_id)
            self._work.send_now(task_id)
            return True
        graph = self._work.graphs.kept(task_id)
        if graph is not None:
            self._make_again(graph, task_id)
        elif needed is not None:
            self._work.out.append(InputResult(task_id, TaskStatus.MISSING_OBJECTS, _LOST))
        return graph is not None or needed is not None

    def on_reported(self, task_ids: Iterable[TaskId]) -> None:
        """Note that the scheduler has reported the results of tasks."""
        if self._unanswered:
            self._unanswered.difference_update(task_ids)

    def on_failed(self, task_id: TaskId, make_error: MakeError) -> None:
        """Answer the request for the result of a task that has ended without a report of the scheduler."""
        if task_id in self._unanswered:
            self._unanswered.discard(task_id)
            self._work.out.append(self._known(task_id) or _failure(task_id, make_error))

    def refuse(self, task_id: TaskId) -> None:
        """Report to the scheduler that the client does not know a result."""
        self._work.out.append(InputResult(task_id, TaskStatus.NOT_FOUND, _UNKNOWN))

    def fail(self, task_id: TaskId, make_error: MakeError) -> None:
        """Report to the scheduler that a result that other tasks need cannot be made again."""
        self._work.out.append(_failure(task_id, make_error))

    def _known(self, task_id: TaskId) -> InputResult | None:
        """Return the result of a task; None if it is unknown, because the task is open or the result was lost."""
        unread = self._work.large.unread.get(ObjectId(task_id))
        if unread is not None:
            return _known_of(unread)
        needed = self._inputs.get(task_id)
        if needed is None or needed.is_open or self._work.is_open(task_id):
            return None
        result = needed.result
        if result is None:
            return _failure(task_id, needed.make_error or CancelledError)
        is_lost = result.size and not result.status  # its future no longer exists, or the client has called `clear`
        return None if is_lost else _as_input(result)

    def _make_again(self, graph: GraphCalls, task_id: TaskId) -> None:
        """Send the call of a task of a graph once more, whose result was lost or dropped."""
        task, *_ = call = graph.call(task_id)
        if is_at_most_once(task.options):
            self._work.out.append(InputResult(task_id, TaskStatus.MISSING_OBJECTS, _ONCE))
            return
        make_error = self._work.send_again((replace(task, unwanted=1), *call[1:]))
        if make_error is not None:
            self.fail(task_id, make_error)


def _known_of(unread: UnreadResult) -> InputResult | None:
    task_id = TaskId(unread.object_id)
    if unread.make_error is not None:
        return _failure(task_id, unread.make_error)
    if unread.is_at_scheduler:
        return InputResult(task_id, TaskStatus.SUCCESS, b"", unread.size)
    return None if unread.outcome is None else _as_input(unread.outcome)


def _as_input(result: TaskResult) -> InputResult:
    return InputResult(result.task_id, result.status, result.payload)


def _failure(task_id: TaskId, make_error: MakeError) -> InputResult:
    error = make_error()
    if isinstance(error, CancelledError):
        return InputResult(task_id, TaskStatus.CANCELED, b"")
    sentence = f"the result that it needs is not available: {error}"
    return InputResult(task_id, TaskStatus.MISSING_OBJECTS, sentence.encode())
