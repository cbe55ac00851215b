"""What messages are made of: columns of these types, and batches of items."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeVar

from scaler.ids import GraphId, ObjectId, TaskId
from scaler.serialization import Frames

U8 = Annotated[int, "u8"]
U16 = Annotated[int, "u16"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
I32 = Annotated[int, "i32"]
Id = Annotated[bytes, "id"]
TaskIdColumn = Annotated[TaskId, "id"]
GraphIdColumn = Annotated[GraphId, "id"]
ObjectIdColumn = Annotated[ObjectId, "id"]
Bytes = Annotated[bytes, "bytes"]
Text = Annotated[str, "text"]
FrameColumn = Annotated[Frames, "frames"]

T = TypeVar("T")


class Batch(list[T]):
    """Items of one class that arrived together. `Batch[Task]` is a class of its own: messages are handled by class."""

    item: ClassVar[type]

    @classmethod
    def __class_getitem__(cls, item: type[T]) -> type[Batch[T]]:  # type: ignore[override]
        known = _classes.get(item)
        if known is None:
            known = _classes[item] = type(
                f"Batch[{item.__name__}]", (Batch,), {"item": item, "__module__": item.__module__}
            )
        return known


_classes: dict[type, type[Batch[Any]]] = {}
