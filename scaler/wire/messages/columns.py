"""The parts of messages: types of columns, and batches of items."""

from __future__ import annotations

import struct
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from scaler.ids import ID_BYTES, GraphId, ObjectId, TaskId
from scaler.pickling.serialization import Frames

NEEDED_MOST = 65_536
"""The limit on the objects that a task needs, on its dependencies, and on its inputs."""
ROWS_BYTES_MOST = 64 * 1024 * 1024
"""the limit on the size of a value that consists of rows, if the number of rows has no other limit"""


ROWS_MOST = 4096
"""The most rows of a map that one task can have."""


class UpperLimit(NamedTuple):
    """The rule for a number column: the greatest valid number. Greater numbers could cost the receiver too much
    memory.
    """

    most: int


class FixedRows(NamedTuple):
    """The rule for a bytes column: each value is a sequence of rows of `size` bytes, at most `most` of them."""

    size: int
    most: int

    @classmethod
    def of(cls, size: int) -> FixedRows:
        """Return the rule for rows of this size, which are limited only by `ROWS_BYTES_MOST`."""
        return cls(size, ROWS_BYTES_MOST // size)


NAMES = "names"
"""The rule for a text column with names separated by commas."""
OPTIONS = "options"
"""The rule for a bytes column with encoded `RunOptions`, or empty bytes."""
REASON = "reason"
"""The rule for a text column with sentences."""
TRACEBACK = "traceback"
"""The rule for a text column with texts of several lines."""
LINE = "line"
"""The rule for a text column with lines that tasks wrote, without line ends."""

U8 = Annotated[int, "u8"]
U16 = Annotated[int, "u16"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
I32 = Annotated[int, "i32"]
RowCount = Annotated[int, "u32", UpperLimit(ROWS_MOST)]
Id = Annotated[bytes, "id"]
TaskIdColumn = Annotated[TaskId, "id"]
GraphIdColumn = Annotated[GraphId, "id"]
ObjectIdColumn = Annotated[ObjectId, "id"]
Bytes = Annotated[bytes, "bytes"]
IdRow = Annotated[bytes, "bytes", FixedRows(ID_BYTES, NEEDED_MOST)]
PositionRow = Annotated[bytes, "bytes", FixedRows(4, NEEDED_MOST)]
SizeRow = Annotated[bytes, "bytes", FixedRows.of(8)]
Options = Annotated[bytes, "bytes", OPTIONS]
Text = Annotated[str, "text"]
Names = Annotated[str, "text", NAMES]
Reason = Annotated[str, "text", REASON]
Traceback = Annotated[str, "text", TRACEBACK]
Line = Annotated[str, "text", LINE]
FrameColumn = Annotated[Frames, "frames"]

T = TypeVar("T")


def positions(row: bytes) -> tuple[int, ...]:
    """Return the positions in a value of a `PositionRow`."""
    return struct.unpack(f"<{len(row) // 4}I", row)


class Batch(list[T]):
    """Items of one class that arrived together. `Batch[Task]` is a class, so that each item class has a handler."""

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
