"""Entry: a call that is ready to be sent, and the sink that receives the result of the call.

Made by functions; kept by the open work until the result arrives. The tasks of a graph are one `GraphCalls`, made by
`scaler.client.calls.graph`. The link's thread calls the sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any, NamedTuple, Protocol, TypeAlias

from scaler.client.calls.inputs import Input, Keys, ResultArgument
from scaler.client.object_reference import ObjectReference
from scaler.ids import NO_ID, PREFIX_BYTES, GraphId, ObjectId, TaskId, index_of, random_id, split_ids
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import NO_GRAPH, Task, TaskResult
from scaler.wire.messages.columns import positions
from scaler.wire.messages.common import ObjectInstruction

POSITION = Struct("<I")
"""The format of a position in the field `dependencies` of a task."""


def node_id(graph_id: GraphId, index: int) -> TaskId:
    """Return the id of a task of a graph."""
    return TaskId(graph_id[:PREFIX_BYTES] + index.to_bytes(8, "big"))


MakeError: TypeAlias = Callable[[], BaseException]
"""Makes the error of one future. Futures do not share errors: several threads must not raise one exception object."""


class Sink(Protocol):
    """A receiver of the results of tasks: a future or a map. Called by the link's thread: must not block.

    For each task, exactly one of `deliver`, `refuse`, `store` and `fail` is called, once.
    """

    @property
    def deliver(self) -> Callable[[TaskResult], None]:
        """Receive a result whose value is in the payload."""

    def refuse(self, result: TaskResult) -> None:
        """Receive a result without a value. The status of the result says why."""

    def store(self, result: TaskResult) -> None:
        """Receive the report of a large result that stays with the scheduler until it is fetched."""

    def fail(self, make_error: MakeError) -> None:
        """Receive an error instead of a result."""

    def notify(self) -> None:
        """Wake the threads that wait, because all results of a message have been handled."""


class ResultReceiver(Sink, Protocol):
    """A receiver of a large result; also a sink, if the task runs again. The link's thread calls it: must not block."""

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:
        """Receive the frames of the result; None if the result is no longer stored."""


class ResultFetcher(Protocol):
    """The part of a link that fetches large results."""

    def fetch(self, object_id: ObjectId, receiver: ResultReceiver, keep: bool = False) -> None:
        """Request a large result. With `keep`, the scheduler keeps the result until its future is garbage-collected."""


Kept: TypeAlias = Sequence[Any]
"""The objects that a call keeps alive: references, the futures among its arguments, a pair (label, `Input`) for each of
these futures and, for a task of a graph, its `GraphCalls` as the last one.
"""

Entry: TypeAlias = tuple[Task, Sink, ObjectInstruction, Sequence[ObjectInstruction], Kept]
"""A task, the sink of its result, its function, the objects made for it, and what the entry keeps alive.

A plain tuple, because each mapped task has an entry.
"""

Call: TypeAlias = tuple[Task, ObjectInstruction, Sequence[ObjectInstruction], Kept]
"""An entry without its sink, which would keep a future alive. The task is in no graph."""


def needs_of(kept: Kept) -> list[tuple[str, Input]]:
    """Return the labels and the inputs of the futures among the arguments of a call."""
    return [each for each in kept if type(each) is tuple]


def call_of(entry: Entry, *, keeps_futures: bool) -> Call:
    """Return the call of an entry. Without `keeps_futures`, it keeps the inputs of its task, but not their futures."""
    task, _, function, objects, kept = entry
    if task.inputs and not keeps_futures:
        kept = [each for each in kept if not isinstance(each, ResultArgument)]
    return task, function, objects, kept


class FailedWork(NamedTuple):
    """The result and the call of a task that failed; the future keeps them for `rerun`."""

    result: TaskResult
    call: Call


class GraphCalls:
    """The calls of a graph, and the sinks of its results.

    Args:
        tasks: all needed tasks, each after its dependencies.
        functions: the functions of the tasks.
        objects: the objects made for the tasks.
        references: the references that the graph keeps alive.
        keys: the key of each task in the user's graph, by the index that is part of the task's id.
    """

    __slots__ = (
        *("__weakref__", "_positions"),
        *("functions", "graph_id", "keys", "objects", "references", "sinks", "tasks"),
    )

    def __init__(
        self,
        graph_id: GraphId,
        tasks: Sequence[Task],
        functions: Iterable[ObjectInstruction],
        objects: Iterable[ObjectInstruction] = (),
        references: Sequence[ObjectReference] = (),
        keys: Keys = (),
    ) -> None:
        self.graph_id = graph_id
        self.tasks = tasks
        self.functions: Mapping[ObjectId, ObjectInstruction] = {each.object_id: each for each in functions}
        self.objects: Mapping[ObjectId, ObjectInstruction] = {each.object_id: each for each in objects}
        self.references = references
        self.keys = keys
        self.sinks: dict[TaskId, Sink] = {}
        """id of a wanted task whose result has not arrived -> the sink of that result"""
        self._positions: dict[TaskId, int] = {}

    def fail(self, make_error: MakeError) -> None:
        """Fail all sinks whose results have not arrived."""
        sinks, self.sinks = self.sinks, {}
        for sink in sinks.values():
            sink.fail(make_error)

    def __contains__(self, task_id: TaskId) -> bool:
        try:
            return self.position_of(task_id) >= 0
        except KeyError:
            return False

    def position_of(self, task_id: TaskId) -> int:
        """Return the position of a task. Raises `KeyError` if the graph does not have the task."""
        tasks, index = self.tasks, index_of(task_id)
        if index < len(tasks) and tasks[index].task_id == task_id:
            return index
        if not self._positions:  # the ids are made from keys
            self._positions = {task.task_id: position for position, task in enumerate(tasks)}
        return self._positions[task_id]

    def call(self, task_id: TaskId) -> Call:
        """Return the call of one task by itself, in no graph: it names the tasks that it needs by their ids."""
        task = self.tasks[self.position_of(task_id)]
        inputs = b"".join([self.tasks[each].task_id for each in positions(task.dependencies)])
        single = replace(task, graph_id=NO_GRAPH, graph_tasks=0, dependencies=b"", inputs=inputs, unwanted=0)
        used = set(split_ids(task.object_ids))
        kept = (*(each for each in self.references if each.object_id in used), self)
        return single, self.functions[task.function_id], self._objects_of((task,)), kept

    def _objects_of(self, tasks: Iterable[Task]) -> list[ObjectInstruction]:
        used = {ObjectId(object_id): None for task in tasks for object_id in split_ids(task.object_ids)}
        return [self.objects[object_id] for object_id in used if object_id in self.objects]

    def needs_of(self, task_id: TaskId) -> GraphCalls:
        """Return a new graph without sinks: the calls whose results a task needs directly, which are the wanted ones,
        and all calls that these need.
        """
        position = self.position_of(task_id)
        direct = set(positions(self.tasks[position].dependencies))
        needed = set(direct)
        for each in range(position - 1, -1, -1):
            if each in needed:
                needed.update(positions(self.tasks[each].dependencies))
        graph_id, new = GraphId(random_id()), {old: at for at, old in enumerate(sorted(needed))}
        tasks = [
            replace(
                self.tasks[old],
                task_id=node_id(graph_id, index_of(self.tasks[old].task_id)),
                graph_id=graph_id,
                graph_tasks=len(new),
                dependencies=b"".join([POSITION.pack(new[each]) for each in positions(self.tasks[old].dependencies)]),
                unwanted=int(old not in direct),
            )
            for old in new
        ]
        functions = [self.functions[object_id] for object_id in {task.function_id for task in tasks}]
        return GraphCalls(graph_id, tasks, functions, self._objects_of(tasks), self.references, self.keys)

    def tasks_to_send(self) -> Sequence[Task]:
        """Return the tasks for a submission. A task that has a result runs again only if a missing result needs it."""
        sinks = self.sinks
        if all(task.task_id in sinks for task in self.tasks if not task.unwanted):
            return self.tasks
        sent: list[Task] = []
        needed: set[int] = set()
        for position in range(len(self.tasks) - 1, -1, -1):
            task = self.tasks[position]
            is_wanted = task.task_id in sinks
            if is_wanted or position in needed:
                needed.update(positions(task.dependencies))
                sent.append(task if is_wanted or task.unwanted else replace(task, unwanted=1))
            else:
                sent.append(_ended(task))
        sent.reverse()
        return sent


def graph_of(call: Call) -> GraphCalls | None:
    """Return the graph of a call; None if its task was in no graph."""
    kept = call[3]
    return kept[-1] if kept and type(kept[-1]) is GraphCalls else None


def _ended(task: Task) -> Task:
    """Return a task that has the id and the objects of `task`, and does not run."""
    return replace(task, function_id=ObjectId(NO_ID), payload=b"", frames=(), dependencies=b"", unwanted=1)
