from __future__ import annotations

from typing import Any

import pytest

from scaler.ids import NO_ID
from scaler.wire.codec.anatomy import ITEM_BYTES, anatomy
from scaler.wire.messages.client import ClientHeartbeat, GraphNode, Task, TaskCancel
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.directions import DIRECTIONS
from tests.support.items import default_item

A, B, C, D = (bytes([number]) * 16 for number in range(1, 5))


def test_the_size_of_an_item_counts_payloads_texts_and_frames() -> None:
    task: Any = Task(A, B, bytes(1000), C + D, name="a name")  # type: ignore[arg-type]
    assert anatomy(Task).size(task) == ITEM_BYTES + 1000 + 32 + len("a name")
    created: Any = ObjectInstruction(InstructionKind.CREATE, A, "", (bytes(500), memoryview(bytearray(700))))  # type: ignore[arg-type]
    assert anatomy(ObjectInstruction).size(created) == ITEM_BYTES + 1200
    assert anatomy(ClientHeartbeat).size(ClientHeartbeat(5)) == ITEM_BYTES


def test_a_task_makes_its_id_and_names_its_function_and_objects() -> None:
    task: Any = Task(A, B, b"", C + D)  # type: ignore[arg-type]
    assert anatomy(Task).made_by(task) == A
    assert list(anatomy(Task).named_by(task)) == [A, B, C, D]


def test_a_node_makes_the_id_of_its_graph() -> None:
    node: Any = GraphNode(A, B, C, b"", D, b"", 1)  # type: ignore[arg-type]
    assert anatomy(GraphNode).made_by(node) == A
    assert set(anatomy(GraphNode).named_by(node)) == {A, B, C, D}


def test_an_item_without_an_id_makes_none() -> None:
    assert anatomy(ClientHeartbeat).made_by(ClientHeartbeat(5)) == NO_ID
    assert list(anatomy(ClientHeartbeat).named_by(ClientHeartbeat(5))) == []
    cancel: Any = TaskCancel(A)  # type: ignore[arg-type]
    assert list(anatomy(TaskCancel).named_by(cancel)) == [A]


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
def test_every_message_has_an_anatomy(direction: Any) -> None:
    for item in direction.items:
        empty = default_item(item)
        assert anatomy(item).size(empty) == ITEM_BYTES
        assert anatomy(item).made_by(empty) == NO_ID
