from __future__ import annotations

from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.columns import Batch


def test_each_class_of_items_has_one_class_of_batches() -> None:
    assert Batch[Task] is Batch[Task]
    assert Batch[Task] is not Batch[TaskResult]
    assert type(Batch[Task]()) is Batch[Task]


def test_a_batch_class_has_its_item_class_and_names_it() -> None:
    assert Batch[Task].item is Task
    assert Batch[Task].__name__ == "Batch[Task]"
    assert isinstance(Batch[Task](), Batch)
