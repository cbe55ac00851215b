"""Entry: a call that is ready to be sent, and the sink that receives the result of the call.

Made by functions; kept by the open work until the result arrives. The tasks of a graph are one `GraphCalls`, made by
`scaler.client.calls.graph`. The link's thread calls the sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from scaler.client.calls.inputs import Input, Keys, ResultArgument
from scaler.client.object_reference import ObjectReference
from scaler.ids import NO_ID, PREFIX_BYTES, GraphId, ObjectId, TaskId, index_of, random_id, split_ids
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import NO_GRAPH, SHOWN_TASKS_MOST, Task, TaskResult
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


@runtime_checkable
class RowSink(Sink, Protocol):
    """A sink of several tasks, of which one may fail alone, and of ranges."""

    def fail_task(self, task_id: TaskId, make_error: MakeError) -> None:
        """Receive an error instead of the result of one task."""

    def expect_rows(self) -> None:
        """Expect results of several rows from now on."""


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


Terms: TypeAlias = tuple[int, str, bytes, int, int]
"""A task's priority, name (or ""), encoded `RunOptions`, number of the account, and tag of the owner.

A plain tuple, because one is made for each submit and unpacked for each mapped task.
"""
NAME: Final = 1
"""The index of the name of a task in `Terms`."""

RUN_OPTIONS: Final = 2
"""The index of the encoded `RunOptions` in `Terms`."""

NO_TERMS: Terms = (0, "", b"", 0, 0)

GraphCall: TypeAlias = tuple[ObjectId, bytes, bytes, Frames, bytes, int]
"""The function, block, object ids, frames, dependencies and `unwanted` of a task of a graph, as `Task` has them.

A plain tuple, because a graph may have a million tasks, and the other attributes of a `Task` are those of its graph.
"""


class FailedWork(NamedTuple):
    """The result and the call of a task that failed; the future keeps them for `rerun`."""

    result: TaskResult
    call: Call


class GraphCalls:
    """The calls of a graph, and the sinks of its results.

    Args:
        terms: the terms of all its tasks.
        calls: all needed tasks, each after its dependencies.
        functions: the functions of the tasks.
        objects: the objects made for the tasks.
        references: the references that the graph keeps alive.
        keys: the key of each task in the user's graph, by the index that is part of the task's id. In a graph of at
            most `SHOWN_TASKS_MOST` tasks whose terms have no name, it is the name of the task.
        indices: the index in the id of each task, if it is not the position of the task.
    """

    __slots__ = (
        *("__weakref__", "_calls", "_indices", "_positions"),
        *("functions", "graph_id", "keys", "objects", "references", "sinks", "terms"),
    )

    def __init__(
        self,
        graph_id: GraphId,
        terms: Terms,
        calls: Sequence[GraphCall],
        functions: Iterable[ObjectInstruction],
        objects: Iterable[ObjectInstruction] = (),
        references: Sequence[ObjectReference] = (),
        keys: Keys = (),
        indices: Sequence[int] = (),
    ) -> None:
        self.graph_id = graph_id
        self.terms = terms
        self._calls, self._indices = calls, indices or range(len(calls))
        self.functions: Mapping[ObjectId, ObjectInstruction] = {each.object_id: each for each in functions}
        self.objects: Mapping[ObjectId, ObjectInstruction] = {each.object_id: each for each in objects}
        self.references = references
        self.keys = keys
        self.sinks: dict[TaskId, Sink] = {}
        """id of a wanted task whose result has not arrived -> the sink of that result"""
        self._positions: dict[int, int] = {}

    def fail(self, make_error: MakeError) -> None:
        """Fail all sinks whose results have not arrived."""
        sinks, self.sinks = self.sinks, {}
        for sink in sinks.values():
            sink.fail(make_error)

    @property
    def tasks(self) -> list[Task]:
        """All tasks, made from the calls each time."""
        return self._made(0, len(self._calls))

    def task(self, position: int) -> Task:
        """Return the task at a position."""
        return self._made(position, position + 1)[0]

    def _made(self, first: int, end: int) -> list[Task]:
        graph_id, prefix, n_tasks = self.graph_id, self.graph_id[:PREFIX_BYTES], len(self._calls)
        priority, name, options, account, owner = self.terms
        keys = self.keys if not name and n_tasks <= SHOWN_TASKS_MOST else ()
        return [
            Task(
                TaskId(prefix + index.to_bytes(8, "big")), function_id, payload, object_ids,
                priority, keys[index] if keys else name, options, account, frames, 0, owner,
                graph_id, n_tasks, dependencies, b"", unwanted, int(bool(keys)),
            )
            for index, (function_id, payload, object_ids, frames, dependencies, unwanted) in zip(
                self._indices[first:end], self._calls[first:end], strict=True
            )
        ]  # fmt: skip

    def id_of(self, position: int) -> TaskId:
        """Return the id of the task at a position."""
        return node_id(self.graph_id, self._indices[position])

    def __contains__(self, task_id: TaskId) -> bool:
        try:
            return self.position_of(task_id) >= 0
        except KeyError:
            return False

    def position_of(self, task_id: TaskId) -> int:
        """Return the position of a task of this graph. Raises `KeyError` if no task has the id."""
        index = index_of(task_id)
        if index < len(self._indices) and self._indices[index] == index:
            return index
        if not self._positions:  # the ids are made from keys
            self._positions = {index: position for position, index in enumerate(self._indices)}
        return self._positions[index]

    def call(self, task_id: TaskId) -> Call:
        """Return the call of one task by itself, in no graph: it names the tasks that it needs by their ids."""
        task = self.task(self.position_of(task_id))
        inputs = b"".join(map(self.id_of, positions(task.dependencies)))
        single = replace(task, graph_id=NO_GRAPH, graph_tasks=0, dependencies=b"", inputs=inputs, unwanted=0)
        used = set(split_ids(task.object_ids))
        kept = (*(each for each in self.references if each.object_id in used), self)
        return single, self.functions[task.function_id], self._objects_of(task.object_ids), kept

    def used(self) -> tuple[bytes, list[Frames]]:
        """Return the ids of the objects among the arguments of all tasks, joined, and the frames of these arguments."""
        return b"".join([call[2] for call in self._calls]), [call[3] for call in self._calls if call[3]]

    def _objects_of(self, object_ids: bytes) -> list[ObjectInstruction]:
        used = dict.fromkeys(map(ObjectId, split_ids(object_ids)))
        return [self.objects[object_id] for object_id in used if object_id in self.objects]

    def needs_of(self, task_id: TaskId) -> GraphCalls:
        """Return a new graph without sinks: the calls whose results a task needs directly, which are the wanted ones,
        and all calls that these need.
        """
        position = self.position_of(task_id)
        direct = set(self.dependencies(position))
        needed = set(direct)
        for each in range(position - 1, -1, -1):
            if each in needed:
                needed.update(self.dependencies(each))
        new = {old: at for at, old in enumerate(sorted(needed))}
        calls: list[GraphCall] = [
            (
                *self._calls[old][:4],
                b"".join([POSITION.pack(new[each]) for each in self.dependencies(old)]),
                int(old not in direct),
            )
            for old in new
        ]
        functions = [self.functions[object_id] for object_id in {call[0] for call in calls}]
        objects = self._objects_of(b"".join([call[2] for call in calls]))
        what = GraphId(random_id()), self.terms, calls, functions, objects, self.references
        return GraphCalls(*what, self.keys, [self._indices[old] for old in new])

    def dependencies(self, position: int) -> tuple[int, ...]:
        """Return the positions of the tasks whose results a task needs."""
        return positions(self._calls[position][4])

    def tasks_to_send(self) -> Sequence[Task]:
        """Return the tasks for a submission. A task that has a result runs again only if a missing result needs it."""
        sinks, tasks = self.sinks, self.tasks
        if all(task.task_id in sinks for task in tasks if not task.unwanted):
            return tasks
        needed: set[int] = set()
        for position in range(len(tasks) - 1, -1, -1):
            task = tasks[position]
            is_wanted = task.task_id in sinks
            if is_wanted or position in needed:
                needed.update(self.dependencies(position))
                if not (is_wanted or task.unwanted):
                    tasks[position] = replace(task, unwanted=1)
            else:
                tasks[position] = _ended(task)
        return tasks


def graph_of(call: Call) -> GraphCalls | None:
    """Return the graph of a call; None if its task was in no graph."""
    kept = call[3]
    return kept[-1] if kept and type(kept[-1]) is GraphCalls else None


def _ended(task: Task) -> Task:
    """Return a task that has the id and the objects of `task`, and does not run."""
    return replace(task, function_id=ObjectId(NO_ID), payload=b"", frames=(), dependencies=b"", unwanted=1)
