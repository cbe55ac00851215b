"""What messages are made of: columns of these types, and batches of items."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeVar

from scaler.ids import GraphId, ObjectId, TaskId
from scaler.serialization import Frames

U8 = Annotated[int, "u8"]
U16 = Annotated[int, "u16"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
Id = Annotated[bytes, "id"]
TaskIdColumn = Annotated[TaskId, "id"]
GraphIdColumn = Annotated[GraphId, "id"]
ObjectIdColumn = Annotated[ObjectId, "id"]
Bytes = Annotated[bytes, "bytes"]
Text = Annotated[str, "text"]
FrameColumn = Annotated[Frames, "frames"]

T = TypeVar("T")


class Batch(list[T]):
    """Items of one type that arrived together."""

    item: ClassVar[type]

    def __init_subclass__(cls, item: type, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.item = item
