from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import pytest

from scaler.client.calls.arguments import ArgumentPacker
from scaler.client.calls.entry import GraphCalls
from scaler.client.calls.functions import ClientFunctions
from scaler.client.calls.graph import COPIES_MOST, pack_graph
from scaler.client.calls.inputs import ResultArgument
from scaler.client.object_reference import ObjectReference
from scaler.endpoint import Endpoint
from scaler.errors import MissingObjects
from scaler.ids import ObjectId, TaskId, split_ids
from scaler.pickling.serialization import (
    BLOCK_BYTES,
    OBJECT,
    VALUE,
    DefaultSerializer,
    plain_block,
    put_results,
    read_arguments,
)
from scaler.wire.messages.client import Task
from scaler.wire.messages.columns import positions
from scaler.wire.messages.common import InstructionKind

ADDRESS = "tcp://127.0.0.1:1"


def pack(graph: dict[str, Any], keys: Sequence[str], *terms: Any) -> tuple[GraphCalls, dict[str, TaskId | None]]:
    serializer = DefaultSerializer()
    packer = ArgumentPacker(serializer, ADDRESS)
    return pack_graph(graph, keys, ClientFunctions(serializer, Endpoint.parse(ADDRESS), packer), packer, *terms)


def packed(graph: dict[str, Any], *keys: str) -> GraphCalls:
    return pack(graph, keys)[0]


def arguments(task: Task, results: dict[int, Any] | None = None) -> list[Any]:
    """Return the arguments of a task, with the id in place of each object. `results`: the needed results, by index."""
    serializer = DefaultSerializer()
    known = {position: (VALUE, serializer.serialize(value)) for position, value in (results or {}).items()}
    block, _ = put_results(task.payload, known.__getitem__)
    positional, keywords = read_arguments(block, serializer.deserialize, lambda object_id, _is_own: object_id)
    assert keywords == {}
    return positional


def test_data_of_a_graph_is_inside_the_arguments_and_has_no_task() -> None:
    graph = packed({"a": 1, "b": (operator.add, "a", 2), "c": (max, "b", "b", "a")}, "c")
    first, second = graph.tasks
    assert arguments(first) == [1, 2]
    assert arguments(second, {0: 3}) == [3, 3, 1]
    assert (first.dependencies, second.dependencies) == (b"", bytes(4))
    assert (first.unwanted, second.unwanted) == (1, 0)
    assert {(task.graph_id, task.graph_tasks) for task in graph.tasks} == {(graph.graph_id, 2)}


def test_only_needed_calls_become_tasks_each_after_those_that_it_needs() -> None:
    graph = packed({"c": (operator.add, "b", "a"), "unneeded": (abs, "c"), "b": (abs, "a"), "a": (abs, -1)}, "c")
    assert [positions(task.dependencies) for task in graph.tasks] == [(), (0,), (1, 0)]
    assert list(graph.keys) == ["a", "b", "c"]
    assert arguments(graph.tasks[2], {0: "first need", 1: "second need"}) == ["first need", "second need"]


def test_the_tasks_of_a_graph_have_its_terms_and_the_names_of_their_keys_if_it_has_no_name() -> None:
    calls = {"a": (abs, -1), "b": (abs, "a")}
    graph, _ = pack(calls, ["b"], (7, "name", b"", 1, 2))
    assert {(task.priority, task.name, task.account, task.owner) for task in graph.tasks} == {(7, "name", 1, 2)}
    graph_without, _ = pack(calls, ["b"], (7, "", b"", 1, 2))
    assert [(task.name, task.named_by_key) for task in graph_without.tasks] == [("a", 1), ("b", 1)]
    assert {task.named_by_key for task in graph.tasks} == {0}


def test_futures_are_refused() -> None:
    future = ResultArgument()
    for graph in ({"a": (abs, future)}, {"f": future, "a": (abs, "f")}):
        with pytest.raises(TypeError, match=r"the node 'a': a future can be an argument of submit or map, and not of"):
            packed(graph, "a")


def test_each_function_of_a_graph_is_one_object() -> None:
    graph = packed({"a": (abs, -1), "b": (abs, "a"), "c": (operator.add, "a", "b")}, "c")
    assert list(graph.functions) == list(dict.fromkeys(task.function_id for task in graph.tasks))
    assert len(graph.functions) == 2


def test_requested_keys_keep_their_order_and_data_has_no_task() -> None:
    graph, asked = pack({"b": (abs, "a"), "a": 1}, ["a", "b"])
    assert asked == {"a": None, "b": graph.tasks[0].task_id}
    assert list(asked) == ["a", "b"]


def test_a_large_value_of_a_graph_is_one_object_for_all_tasks() -> None:
    graph = packed({"big": bytes(50_000), "b": (len, "big"), "c": (max, "big", "big", "b")}, "c")
    (instruction,) = graph.objects.values()
    assert instruction.kind == InstructionKind.CREATE_FOR_TASK
    assert [task.payload[0] for task in graph.tasks] == [OBJECT] * 2
    assert [split_ids(task.object_ids) for task in graph.tasks] == [
        [instruction.object_id],
        [instruction.object_id] * 2,
    ]


def test_a_value_that_many_tasks_use_becomes_one_object() -> None:
    count = 3 * COPIES_MOST
    graph = packed(
        {"data": bytes(2000), **{str(n): (len, "data") for n in range(count)}, "all": (max, *map(str, range(count)))},
        "all",
    )
    assert len(graph.objects) == 1
    assert sum(len(task.payload) > 2000 for task in graph.tasks) == COPIES_MOST


def test_values_that_exceed_one_block_together_become_objects() -> None:
    count = 20
    data = {f"d{n}": bytes([n]) * 8000 for n in range(count)}
    graph = packed({**data, "one": (max, *data, b"literal" * 1000), "two": (min, *data, "one")}, "two")
    assert all(len(task.payload) < BLOCK_BYTES for task in graph.tasks)
    assert len(graph.objects) == count + 1
    assert len(set(split_ids(graph.tasks[1].object_ids))) == count
    assert not any(task.payload.count(b"\1" * 100) for task in graph.tasks)


@pytest.mark.parametrize("as_is", [False, True])
def test_the_object_of_a_reference_lives_as_long_as_the_graph(*, as_is: bool) -> None:
    reference = ObjectReference("name", ObjectId(b"r" * 16), 3)
    value = reference.as_is() if as_is else reference
    graph = packed({"r": [value] if as_is else value, "b": (len, "r"), "c": (max, "b", value)}, "c")
    assert [task.object_ids for task in graph.tasks] == [reference.object_id] * 2
    assert arguments(graph.tasks[0]) == ([[reference]] if as_is else [reference.object_id])
    assert arguments(graph.tasks[1], {0: 3}) == [3, reference if as_is else reference.object_id]
    assert set(graph.references) == {reference}


def test_a_requested_reference_is_fetched_by_a_task() -> None:
    reference = ObjectReference("name", ObjectId(b"r" * 16), 3)
    graph = packed({"r": reference, "b": (len, "r")}, "r", "b")
    assert len(graph.tasks) == 2
    assert [task.unwanted for task in graph.tasks] == [0, 0]
    assert [arguments(task) for task in graph.tasks] == [[reference.object_id]] * 2


def test_a_reference_of_a_forgotten_object_is_refused() -> None:
    reference = ObjectReference("name", ObjectId(b"r" * 16), 3, stored=set())
    with pytest.raises(MissingObjects):
        packed({"r": reference, "b": (len, "r")}, "b")


@pytest.mark.parametrize("call", [(len,), (operator.add, 1), (operator.add, 1, 2, 3)])
def test_a_call_that_does_not_fit_its_function_is_a_type_error(call: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        packed({"a": call}, "a")


def test_values_of_a_graph_are_copied_when_it_is_packed() -> None:
    values = [1, 2]
    graph = packed({"a": values, "b": (len, "a"), "c": (max, "b", values)}, "c")
    values.append(3)
    assert arguments(graph.tasks[0]) == [[1, 2]]
    assert arguments(graph.tasks[1], {0: 2}) == [2, [1, 2]]


def test_callables_and_none_are_data() -> None:
    graph = packed({"f": abs, "n": None, "b": (max, "f", "n", abs)}, "b")
    assert arguments(graph.tasks[0]) == [abs, None, abs]
    assert plain_block((None,), False) in graph.tasks[0].payload
