from __future__ import annotations

from typing import Any

import pytest

from scaler.wire.codec.anatomy import ITEM_BYTES, anatomy
from scaler.wire.messages.client import NO_GRAPH, ClientHeartbeat, Task, TaskCancel
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.directions import DIRECTIONS
from tests.support.items import default_item

A, B, C, D, E = (bytes([number]) * 16 for number in range(1, 6))


def test_the_size_of_an_item_counts_payloads_texts_and_frames() -> None:
    task: Any = Task(A, B, bytes(1000), C + D, name="a name")  # type: ignore[arg-type]
    assert anatomy(Task).size(task) == ITEM_BYTES + 1000 + 32 + len("a name")
    created: Any = ObjectInstruction(InstructionKind.CREATE, A, "", (bytes(500), memoryview(bytearray(700))))  # type: ignore[arg-type]
    assert anatomy(ObjectInstruction).size(created) == ITEM_BYTES + 1200
    assert anatomy(ClientHeartbeat).size(ClientHeartbeat(5)) == ITEM_BYTES


def test_a_task_makes_its_id_and_names_its_function_objects_and_inputs() -> None:
    task: Any = Task(A, B, b"", C + D, inputs=E)  # type: ignore[arg-type]
    assert anatomy(Task).made_by(task) == [A]
    assert list(anatomy(Task).named_by(task)) == [A, B, NO_GRAPH, C, D, E]


def test_a_task_of_a_graph_also_makes_the_id_of_the_graph() -> None:
    task: Any = Task(A, B, b"", b"", graph_id=C)  # type: ignore[arg-type]
    assert anatomy(Task).made_by(task) == [A, C]
    assert list(anatomy(Task).named_by(task)) == [A, B, C]


def test_an_item_without_an_id_makes_none() -> None:
    assert anatomy(ClientHeartbeat).made_by(ClientHeartbeat(5)) == []
    assert list(anatomy(ClientHeartbeat).named_by(ClientHeartbeat(5))) == []
    cancel: Any = TaskCancel(A, graph_id=B)  # type: ignore[arg-type]
    assert list(anatomy(TaskCancel).named_by(cancel)) == [A, B]


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
def test_every_message_has_an_anatomy(direction: Any) -> None:
    for item in direction.items:
        empty = default_item(item)
        assert anatomy(item).size(empty) == ITEM_BYTES
        assert anatomy(item).made_by(empty) == []
