"""Message classes as stencils see them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from scaler.ids import ObjectId, TaskId
from scaler.wire.codec import codec
from scaler.wire.codec.item_kinds import ItemKind
from scaler.wire.messages.client import Task
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER

TASK = Task(TaskId(b"t" * 16), ObjectId(b"f" * 16), b"arguments", b"")


@pytest.fixture
def kind() -> ItemKind:
    return next(codec._item_kind(batch) for batch in CLIENT_TO_SCHEDULER.batches if batch.item is Task)


def test_the_arguments_of_a_task_may_have_any_length(kind: ItemKind) -> None:
    assert kind.stretch is not None
    assert kind.columns[kind.firm[kind.stretch]].name == "payload"
    assert kind.values(TASK)[kind.stretch] == b"arguments"


def test_lengths_and_zeros_determine_the_shape(kind: ItemKind) -> None:
    shape = kind.shape(TASK)
    assert shape is not None
    assert kind.shape(dataclasses.replace(TASK, payload=b"ARGUMENTS")) == (
        kind.values(dataclasses.replace(TASK, payload=b"ARGUMENTS")),
        shape[1],
    )
    lengths: list[dict[str, Any]] = [{"payload": b"argument"}, {"object_ids": bytes(16)}, {"options": b"x"}]
    others = [*lengths, {"priority": 1}]
    shapes = {(kind.shape(dataclasses.replace(TASK, **other)) or ((), ()))[1] for other in others}
    assert len(shapes | {shape[1]}) == 5
    assert kind.shape(dataclasses.replace(TASK, name="a text")) is None
