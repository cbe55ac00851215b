"""The codec: items to bytes and back, for every message alike.

The annotations of a message class say how each of its fields is written as a column (see `_COLUMNS`); nothing here knows any
message by name. Everything that arrives is untrusted: whatever is wrong with it becomes a `ProtocolError`.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import capnp

from scaler.errors import ProtocolError
from scaler.ids import ID_BYTES, NO_ID
from scaler.serialization import Frames
from scaler.wire.messages import DIRECTIONS, Batch, Direction

MESSAGE_ITEMS = 2048
"""The most items in one message: more are split, so that the largest message stays under the reader's limit."""


def schema_directory() -> Path:
    """Return the directory of the schema files: in the installed package, else in the checkout beside it."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "protocol"
    return installed if installed.is_dir() else package.parent / "protocol"


class TaskFailure(NamedTuple):
    """How a task failed: the payload of a result with the status FAILED."""

    type_name: str
    text: str
    traceback: str
    exception: bytes

    def encode(self) -> bytes:
        return bytes(
            _SCHEMAS["common"]
            .TaskFailure.new_message(
                typeName=self.type_name, text=self.text, traceback=self.traceback, exception=self.exception
            )
            .to_bytes()
        )

    @classmethod
    def decode(cls, payload: bytes) -> TaskFailure:
        try:
            with _SCHEMAS["common"].TaskFailure.from_bytes(payload) as failure:
                return cls(failure.typeName, failure.text, failure.traceback, bytes(failure.exception))
        except Exception as error:
            raise ProtocolError(f"not a task failure: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return what went wrong, without the stack that the library appends."""
    return str(error).partition("\n")[0]


# Columns


class _Column(NamedTuple):
    """How the values of one field are written and read."""

    default: Any
    write: Callable[[list[Any]], Any]
    read: Callable[[Any, int], Iterable[Any]]


def _same(values: list[Any]) -> Any:
    return values


def _read_list(reader: Any, count: int) -> Iterable[Any]:
    values = list(reader)
    if len(values) != count:
        raise ProtocolError(f"a column has {len(values)} entries for {count} items")
    return values


def _read_bytes(data: bytes, count: int) -> Iterable[int]:
    if len(data) != count:
        raise ProtocolError(f"a byte column has {len(data)} entries for {count} items")
    return data


def _read_ids(data: bytes, count: int) -> Iterable[bytes]:
    if len(data) != count * ID_BYTES:
        raise ProtocolError(f"an id column has {len(data)} bytes for {count} items")
    return [data[i : i + ID_BYTES] for i in range(0, len(data), ID_BYTES)]


_COLUMNS = {
    "u8": _Column(0, bytes, _read_bytes),
    "u16": _Column(0, _same, _read_list),
    "u32": _Column(0, _same, _read_list),
    "u64": _Column(0, _same, _read_list),
    "id": _Column(NO_ID, b"".join, _read_ids),
    "bytes": _Column(b"", _same, _read_list),
    "text": _Column("", _same, _read_list),
    "frames": _Column((), _same, _read_list),
}


class _Field(NamedTuple):
    name: str
    kind: str
    schema_name: str
    get: Callable[[Any], Any]
    column: _Column


def camel_case(name: str) -> str:
    """Return `some_name` as `someName`, the way schemas spell it."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def column_kinds(item: type) -> dict[str, str]:
    """Return field name -> column kind of a message class."""
    hints = typing.get_type_hints(item, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


class _ItemCodec:
    """Writes and reads batches of one message class."""

    def __init__(self, batch: type[Batch[Any]]) -> None:
        self._batch = batch
        self.item = batch.item
        self.union_name = batch.item.__name__[0].lower() + batch.item.__name__[1:]
        self._fields = [
            _Field(name, kind, camel_case(name), attrgetter(name), _COLUMNS[kind])
            for name, kind in column_kinds(batch.item).items()
        ]

    def write(self, builder: Any, items: list[Any], frames: list[Any]) -> None:
        builder.count = len(items)
        for field in self._fields:
            values = list(map(field.get, items))
            if not any(values):
                continue
            if field.kind == "frames":
                for value in values:
                    frames.extend(value)
                values = list(map(len, values))
            setattr(builder, field.schema_name, field.column.write(values))

    def read(self, reader: Any, frames: Iterator[Any]) -> Batch[Any]:
        count = reader.count
        if count > MESSAGE_ITEMS:
            raise ProtocolError(f"{count} items in one batch; the most is {MESSAGE_ITEMS}")
        columns: list[Iterable[Any]] = []
        for field in self._fields:
            raw = getattr(reader, field.schema_name)
            if not len(raw):
                columns.append(repeat(field.column.default, count))
                continue
            values = field.column.read(raw, count)
            if field.kind == "frames":
                values = [_take(frames, length) for length in values]
            columns.append(values)
        return self._batch(map(self.item, *columns)) if columns else self._batch(self.item() for _ in range(count))


def _take(frames: Iterator[Any], length: int) -> Frames:
    taken = []
    for _ in range(length):
        try:
            taken.append(next(frames))
        except StopIteration:
            raise ProtocolError("fewer payload frames than announced") from None
    return taken


class _DirectionCodec:
    def __init__(self, direction: Direction) -> None:
        self.number = direction.number
        self.struct = getattr(_SCHEMAS[direction.schema], direction.name)
        self.by_item: dict[type, _ItemCodec] = {}
        self.by_name: dict[str, _ItemCodec] = {}
        for batch in direction.batches:
            codec = _ItemCodec(batch)
            self.by_item[batch.item] = codec
            self.by_name[codec.union_name] = codec


def _load_schemas() -> dict[str, Any]:
    directory = schema_directory()
    return {
        name: capnp.load(str(directory / f"{name}.capnp"), imports=[str(directory)])
        for name in ("common", "client", "worker", "processor")
    }


_SCHEMAS = _load_schemas()
_CODECS = {direction.name: _DirectionCodec(direction) for direction in DIRECTIONS}


def encode(direction: Direction, items: Sequence[Any]) -> Iterator[tuple[bytes, list[Any]]]:
    """Write items as messages, in their order; runs of one type become one batch of columns.

    Yields:
        the header frame and the payload frames of each message: one, unless there are very many items.
    """
    for start in range(0, len(items), MESSAGE_ITEMS):
        yield _encode(_CODECS[direction.name], items[start : start + MESSAGE_ITEMS])


def _encode(codec: _DirectionCodec, items: Sequence[Any]) -> tuple[bytes, list[Any]]:
    runs = [(kind, list(run)) for kind, run in groupby(items, type)]
    frames: list[Any] = []
    message = codec.struct.new_message()
    message.direction = codec.number
    batches = message.init("batches", len(runs))
    for index, (kind, run) in enumerate(runs):
        item_codec = codec.by_item[kind]
        item_codec.write(batches[index].init(item_codec.union_name), run, frames)
    return message.to_bytes(), frames


def decode(direction: Direction, header: Any, frames: Sequence[Any]) -> list[Batch[Any]]:
    """Read one message.

    Args:
        header: the header frame.
        frames: the payload frames, handed on to the items that they belong to.

    Raises:
        ProtocolError: if this is not a message of that direction.
    """
    codec = _CODECS[direction.name]
    supply = iter(frames)
    try:
        with codec.struct.from_bytes(header) as message:
            if message.direction != codec.number:
                raise ProtocolError(f"not a {direction.name} message: its direction is {message.direction}")
            batches = []
            for batch in message.batches:
                name = batch.which()
                batches.append(codec.by_name[str(name)].read(getattr(batch, name), supply))
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"not a {direction.name} message: {_first_line(error)}") from error
    if next(supply, None) is not None:
        raise ProtocolError("more payload frames than announced")
    return batches
