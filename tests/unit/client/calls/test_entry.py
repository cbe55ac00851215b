from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler.client.calls.entry import POSITION, Entry, GraphCalls, call_of, graph_of, needs_of
from scaler.client.calls.inputs import Input, ResultArgument
from scaler.client.object_reference import ObjectReference
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId, index_of
from scaler.wire.messages.client import NO_GRAPH, Task
from scaler.wire.messages.columns import positions
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from tests.support.graphs import graph_calls

GRAPH_ID = GraphId(b"g" * 16)


class Sink:
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def fail(self, make_error: Any) -> None:
        self.errors.append(make_error())


def function(number: int) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(b"f" * 15 + bytes([number])), "f", [])


def brought(number: int) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE_FOR_TASK, ObjectId(b"o" * 15 + bytes([number])), "", [])


def node_id(number: int, index: int | None = None) -> TaskId:
    return TaskId(GRAPH_ID[:8] + (number if index is None else index).to_bytes(8, "big"))


def node(number: int, unwanted: int, *needs: int, objects: bytes = b"", index: int | None = None) -> Task:
    """Return a task of a graph, which calls the function of this number."""
    dependencies = b"".join(map(POSITION.pack, needs))
    of_graph: dict[str, Any] = {"graph_id": GRAPH_ID, "graph_tasks": 5, "dependencies": dependencies}
    return Task(
        node_id(number, index), function(number).object_id, b"block", objects, 3, "name", **of_graph, unwanted=unwanted
    )


def graph(*tasks: Task, objects: Any = (), references: Any = ()) -> GraphCalls:
    """Return a graph; each wanted task has a sink."""
    functions = map(function, range(len(tasks)))
    made = graph_calls(tasks, functions, objects=objects, references=references)
    made.sinks = {task.task_id: Sink() for task in tasks if not task.unwanted}  # type: ignore[misc]
    return made


def test_a_resubmitted_graph_requests_missing_results_and_runs_only_tasks_they_need() -> None:
    tasks = [node(0, 1), node(1, 0, 0), node(2, 1, objects=b"o" * 16), node(3, 0, 1), node(4, 0, 2)]
    made = graph(*tasks)
    assert made.tasks_to_send() == tasks
    del made.sinks[tasks[1].task_id]
    del made.sinks[tasks[4].task_id]
    third, fifth = (
        replace(task, function_id=ObjectId(NO_ID), payload=b"", dependencies=b"", unwanted=1)
        for task in (tasks[2], tasks[4])
    )
    assert made.tasks_to_send() == [tasks[0], replace(tasks[1], unwanted=1), third, tasks[3], fifth]
    assert third.object_ids == b"o" * 16, "the objects are used, and are dropped with it"


def test_each_waiting_sink_of_a_graph_fails_once_with_its_own_error() -> None:
    made = graph(node(0, 0), node(1, 1), node(2, 0))
    first, second = made.sinks.values()
    for _ in range(2):
        made.fail(lambda: ValueError("why"))
    assert isinstance(first, Sink)
    assert isinstance(second, Sink)
    (one,), (other,) = first.errors, second.errors
    assert one is not other
    assert made.sinks == {}


@pytest.mark.parametrize("index", [None, 2**63])
def test_the_call_of_a_task_of_a_graph_names_what_it_needs_by_id(index: int | None) -> None:
    reference = ObjectReference("name", ObjectId(b"r" * 16), 3)
    other = ObjectReference("other", ObjectId(b"s" * 16), 3)
    last = node(2, 1, 1, 0, objects=brought(7).object_id + reference.object_id, index=index)
    made = graph(node(0, 1), node(1, 1), last, objects=[brought(7), brought(8)], references=[other, reference])
    task, of, objects, kept = call = made.call(last.task_id)
    assert task == replace(
        last, graph_id=NO_GRAPH, graph_tasks=0, dependencies=b"", inputs=node_id(1) + node_id(0), unwanted=0
    )
    assert (of, objects) == (function(2), [brought(7)])
    assert kept == (reference, made)
    assert graph_of(call) is made
    assert needs_of(kept) == []
    assert made.position_of(last.task_id) == 2
    assert last.task_id in made
    assert node_id(7) not in made


def test_the_calls_that_a_task_needs_are_a_graph_of_their_own() -> None:
    tasks = [node(0, 1), node(1, 1), node(2, 1, 0, objects=brought(7).object_id), node(3, 1, 0), node(4, 0, 3, 2)]
    made = graph(*tasks, objects=[brought(7), brought(8)])
    needs = made.needs_of(tasks[4].task_id)
    assert needs.graph_id != GRAPH_ID
    assert [index_of(task.task_id) for task in needs.tasks] == [0, 2, 3]
    assert [positions(task.dependencies) for task in needs.tasks] == [(), (0,), (0,)]
    assert [task.unwanted for task in needs.tasks] == [1, 0, 0]
    assert {(task.graph_id, task.graph_tasks, task.task_id[:8]) for task in needs.tasks} == {
        (needs.graph_id, 3, needs.graph_id[:8])
    }
    assert needs.functions.keys() == {task.function_id for task in needs.tasks}
    assert list(needs.objects.values()) == [brought(7)]
    assert made.needs_of(tasks[0].task_id).tasks == []


class Future(Sink, ResultArgument):
    """The sink of a task that is an argument of another one."""


def test_a_call_keeps_the_inputs_of_its_task_and_their_futures_only_on_request() -> None:
    needed, future, sink = Input(node_id(1), "first", ()), Future(), Sink()
    reference = ObjectReference("name", ObjectId(b"r" * 16), 3)
    task = Task(node_id(2), function(0).object_id, b"", b"", inputs=node_id(1))
    kept = [reference, future, ("argument 1", needed)]
    entry: Entry = (task, sink, function(0), (), kept)  # type: ignore[assignment]
    assert call_of(entry, keeps_futures=True) == (task, function(0), (), kept)
    assert call_of(entry, keeps_futures=False) == (task, function(0), (), [reference, ("argument 1", needed)])
    assert needs_of(kept) == [("argument 1", needed)]
    assert graph_of(call_of(entry, keeps_futures=True)) is None
