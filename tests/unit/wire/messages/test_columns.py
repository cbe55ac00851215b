from __future__ import annotations

from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.columns import Batch


def test_batches_of_one_class_have_one_class_of_their_own() -> None:
    assert Batch[Task] is Batch[Task]
    assert Batch[Task] is not Batch[TaskResult]
    assert type(Batch[Task]()) is Batch[Task]


def test_batch_knows_what_its_items_are_and_says_so() -> None:
    assert Batch[Task].item is Task
    assert Batch[Task].__name__ == "Batch[Task]"
    assert isinstance(Batch[Task](), Batch)
