"""Graphs: the open graphs of a client, and their inputs: results of other tasks of the client.

Used by the open work. A graph is sent after the tasks that it needs; the scheduler waits for their results. A result
that arrived before the scheduler knew that a graph needs it is sent on request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from typing import Any, Protocol
from weakref import WeakValueDictionary

from scaler.client.calls.entry import GraphEntry, Sink
from scaler.client.calls.inputs import Input
from scaler.client.link.large_results import LargeResults
from scaler.client.link.window import Window
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.messages.client import GraphInput, TaskResult
from scaler.wire.messages.common import ObjectInstruction, TaskStatus


class OpenGraphs:
    """All open graphs of a client, in the order in which they were added."""

    def __init__(self) -> None:
        self.by_id: dict[GraphId, GraphEntry] = {}
        """read-only outside this class"""
        self._by_task: dict[TaskId, GraphEntry] = {}

    def __iter__(self) -> Iterator[GraphEntry]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def add(self, graph: GraphEntry) -> None:
        self.by_id[graph.spec.graph_id] = graph
        self._by_task.update(dict.fromkeys(graph.sinks, graph))

    def functions(self) -> Iterator[ObjectInstruction]:
        """Yield the functions of all graphs."""
        return (function for graph in self for function in graph.functions)

    def __contains__(self, call: object) -> bool:
        return isinstance(call, GraphEntry) and call.spec.graph_id in self.by_id

    def of(self, task_id: TaskId) -> GraphEntry | None:
        """Return the graph of an open task; None if the task is in no graph."""
        return self._by_task.get(task_id)

    def oldest(self) -> TaskId | None:
        """Return a wanted node of the first graph, one whose result has not arrived; None if no graph is open."""
        return next((task_id for graph in self for task_id in graph.sinks), None)

    def pop(self, task_id: TaskId, keeps_inputs: bool = False) -> tuple[GraphEntry, Sink] | None:
        """Remove the sink of an arrived result. Return the graph and the sink, or None if the task is in no graph.

        A graph ends with its last sink, and then drops the futures of its inputs, unless `keeps_inputs`.
        """
        graph = self._by_task.pop(task_id, None)
        if graph is None:
            return None
        sink = graph.sinks.pop(task_id)
        if not graph.sinks:
            del self.by_id[graph.spec.graph_id]
            if not keeps_inputs:
                graph.keepers = ()
        return graph, sink

    def remove(self, task_id: TaskId) -> GraphEntry | None:
        """Remove and return the graph of an open task; None if the task is in no graph."""
        graph = self._by_task.get(task_id)
        return None if graph is None else self.remove_graph(graph.spec.graph_id)

    def remove_graph(self, graph_id: GraphId) -> GraphEntry | None:
        """Remove and return a graph; None if the graph is unknown."""
        graph = self.by_id.pop(graph_id, None)
        if graph is not None:
            graph.keepers = ()
            for wanted in graph.sinks:
                del self._by_task[wanted]
        return graph


_LOST = (
    b"the result that it needs was lost with the scheduler, and its task cannot run again: its future no longer "
    b"exists, or it has the option at_most_once"
)


class GraphWork(Protocol):
    """The methods of the open work that `Dependents` needs."""

    out: list[Any]
    graphs: OpenGraphs
    large: LargeResults
    window: Window

    def is_open(self, task_id: TaskId) -> bool: ...

    def send_nodes(self, graph: GraphEntry, inputs: Iterable[GraphInput] = ()) -> None: ...


class Dependents:
    """The graphs that need results of other tasks. Such a graph is held until these tasks were sent."""

    def __init__(self, work: GraphWork) -> None:
        self._work = work
        self._inputs: WeakValueDictionary[TaskId, Input] = WeakValueDictionary()
        self._held: dict[GraphId, set[TaskId]] = {}
        """id of a held graph -> those tasks needed by the graph that are unsent, or whose results are claimed"""
        self._by_task: dict[TaskId, list[GraphEntry]] = {}
        """needed task -> the held graphs that wait for the task"""
        self._unanswered: set[TaskId] = set()
        """tasks whose results the scheduler has requested; the client answers once they were sent or can run again"""
        self._to_send: deque[GraphEntry] = deque()
        """the graphs to send: a queue instead of recursion, because making an input again may need further graphs"""

    def __bool__(self) -> bool:
        """Return whether any graph is held, or any request of the scheduler is unanswered."""
        return bool(self._held or self._unanswered)

    def clear(self) -> None:
        """Forget all held graphs, because the caller sends all of them again, or has failed them."""
        self._held, self._by_task, self._unanswered = {}, {}, set()

    def send(self, graph: GraphEntry) -> None:
        """Send a graph, at once or when the tasks whose results it needs were sent."""
        self._to_send.append(graph)
        if len(self._to_send) > 1:
            return  # the loop below will come to it
        while self._to_send:
            self._send(self._to_send[0])
            self._to_send.popleft()

    def _send(self, graph: GraphEntry) -> None:
        graph_id = graph.spec.graph_id
        for needed in graph.inputs:
            self._inputs[needed.task_id] = needed
            needed.users[graph_id] = None
        unsent = {each.task_id for each in graph.inputs if self._is_unsent(each)}
        if not unsent:
            self._send_now(graph)
            return
        self._held[graph_id] = unsent
        for task_id in unsent:
            self._by_task.setdefault(task_id, []).append(graph)

    def _is_unsent(self, needed: Input) -> bool:
        task_id = needed.task_id
        if not needed.is_open:
            return self._work.large.is_claimed(ObjectId(task_id))
        return self._has_not_left(task_id)

    def _has_not_left(self, task_id: TaskId) -> bool:
        graph = self._work.graphs.of(task_id)
        return task_id in self._work.window.waiting if graph is None else graph.spec.graph_id in self._held

    def _send_now(self, graph: GraphEntry) -> None:
        self._work.send_nodes(graph, [self._item(graph, *each) for each in enumerate(graph.inputs)])
        for task_id in graph.sinks:
            self.on_sent(task_id)

    def on_sent(self, task_id: TaskId) -> None:
        """Send the graphs that waited only for this task: it was sent, or the claim of its result was answered."""
        for graph in self._by_task.pop(task_id, ()):
            unsent = self._held.get(graph.spec.graph_id)
            if unsent is None:
                continue
            unsent.discard(task_id)
            if not unsent:
                del self._held[graph.spec.graph_id]
                if graph in self._work.graphs:  # else it was cancelled
                    self.send(graph)
        if task_id in self._unanswered:
            self._answer([task_id])

    def on_dropped(self, task_ids: Iterable[TaskId]) -> None:
        """Drop the graphs that wait for these tasks, which were cancelled before they were sent."""
        dropped = deque(task_ids)
        while dropped:
            task_id = dropped.popleft()
            if task_id in self._unanswered:
                self._answer([task_id])
            for graph in self._by_task.pop(task_id, ()):
                self._held.pop(graph.spec.graph_id, None)
                dropped.extend(graph.sinks)
                self._work.graphs.remove_graph(graph.spec.graph_id)
                graph.fail(CancelledError)

    def supply(self, object_id: ObjectId) -> bool:
        """Answer the scheduler's request for the result of a task. Return whether graphs need the result."""
        needed = self._inputs.get(task_id := TaskId(object_id))
        if needed is None:
            return False
        is_open = self._result(needed) is None
        if is_open and (self._has_not_left(task_id) or not self._work.is_open(task_id)):
            self._unanswered.add(task_id)  # the scheduler would ask once more for what it does not have
            return True
        for graph_id in list(needed.users):
            graph = self._work.graphs.by_id.get(graph_id)
            if graph is None:
                del needed.users[graph_id]
            elif graph_id not in self._held:
                self._work.out.append(self._item(graph, graph.inputs.index(needed), needed))
        return True

    def answer_again(self) -> None:
        """Answer the open requests again, because a graph has ended and its lost results can be made again."""
        if self._unanswered:
            self._answer(list(self._unanswered))

    def _answer(self, task_ids: Iterable[TaskId]) -> None:
        """Answer the scheduler's requests for the results of these tasks, if the results are known now."""
        self._unanswered.difference_update(task_ids)
        for task_id in task_ids:
            self.supply(ObjectId(task_id))

    # What is known of a result

    def _item(self, graph: GraphEntry, position: int, needed: Input) -> GraphInput:
        result = self._result(needed)
        source = self._work.graphs.of(needed.task_id) if result is None else None
        where = None if source is None else (source.spec.graph_id, source.position_of(needed.task_id))
        return needed.item(graph.spec.graph_id, position, result, where)

    def _result(self, needed: Input) -> TaskResult | None:
        """Return the result of a task; None if the task is open, maybe because it runs again."""
        result, task_id = needed.result, needed.task_id
        if result is None:
            if self._work.is_open(task_id):
                return None
            return _without_value(task_id, CancelledError() if needed.make_error is None else needed.make_error())
        if not result.size or result.status:
            return result
        unread = self._work.large.needed(ObjectId(task_id))
        if unread is None:
            return TaskResult(task_id, TaskStatus.MISSING_OBJECTS, _LOST, 0)
        if unread.make_error is not None:
            return _without_value(task_id, unread.make_error())
        return result if unread.is_at_scheduler else unread.outcome


def _without_value(task_id: TaskId, error: BaseException) -> TaskResult:
    if isinstance(error, CancelledError):
        return TaskResult(task_id, TaskStatus.CANCELED, b"", 0)
    sentence = f"the result that it needs is not available: {error}"
    return TaskResult(task_id, TaskStatus.MISSING_OBJECTS, sentence.encode(), 0)
