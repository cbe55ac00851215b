"""The codec: turns items into bytes and back, in the same way for every message class.

The annotations of a message class define how each field becomes a column (`columns.py`). The codec knows no message by
name. All input is untrusted: any fault in the input becomes a `ProtocolError`, and the items take no more memory than a
small multiple of the message.

Fields are read through the schema's own field objects (`_get_by_field`), and lists are written by `_set`. Access by
attribute is slower: looking up the names of fields was half of the cost of reading a small message.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, repeat
from operator import attrgetter
from typing import Any, NamedTuple

from capnp import KjException

from scaler.errors import ProtocolError
from scaler.pickling.serialization import size_of
from scaler.texts import shown
from scaler.wire.codec.columns import ColumnCodec, are_options, column_kinds, column_of, most_of
from scaler.wire.codec.item_kinds import ColumnKind, ItemKind
from scaler.wire.codec.schemas import SCHEMAS, first_line
from scaler.wire.codec.schemas import read as open_message
from scaler.wire.codec.stencils import ITEMS_MOST, Stencils
from scaler.wire.messages.columns import OPTIONS, Batch
from scaler.wire.messages.directions import DIRECTIONS, Direction

MESSAGE_ITEMS = 2048
"""The limit on the items in all batches of one message. A receiver refuses a message with more items."""

# A numbered message of one segment: the number of segments less one, their size, the pointer to the root (which follows
# directly and has three words and a pointer), the direction, `number`, `heard`.
_HEAD = struct.Struct("<I4xQ8xQQ")
_NUMBERS_AT = 24

UNWRITABLE = (
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    LookupError,
    BufferError,
    ProtocolError,
    KjException,
    struct.error,
)
"""The exceptions that encoding an item can raise. `MemoryError` is not one of these."""
_ROOT_POINTER = 3 << 32 | 1 << 48


class _Field(NamedTuple):
    get: Callable[[Any], Any]
    name: str
    schema: Any
    column: ColumnCodec
    has_frames: bool


def camel_case(name: str) -> str:
    """Return `some_name` as `someName`, the way schemas spell it."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def union_name(item: type) -> str:
    """Return the name that a message class has in the union of a direction."""
    return item.__name__[0].lower() + item.__name__[1:]


class _ItemCodec:
    def __init__(self, batch: type[Batch[Any]], union_field: Any) -> None:
        self._batch = batch
        self._item = batch.item
        self.union_field = union_field
        self.name = union_name(batch.item)
        schema_fields = union_field.schema.fields
        self._count = schema_fields["count"]
        self._fields = [
            _Field(
                attrgetter(name),
                camel_case(name),
                schema_fields[camel_case(name)],
                column_of(kind, rule),
                kind == "frames",
            )
            for name, (kind, rule) in column_kinds(batch.item).items()
        ]

    def write(self, builder: Any, items: Sequence[Any], frames: list[Any]) -> None:
        write = builder._set  # noqa: SLF001 - see the module's docstring
        write("count", len(items))
        for get, name, _, column, has_frames in self._fields:
            if not any(map(get, items)):
                continue
            values = list(map(get, items))
            if has_frames:
                for value in values:
                    frames.extend(value)
                values = list(map(len, values))
            write(name, column.write(values))

    def check(self, item: Any) -> None:
        """Raise `TypeError` or `ValueError` if a field cannot be encoded, alone or in a column with other items."""
        for get, name, _, column, has_frames in self._fields:
            value = get(item)
            try:
                if has_frames:
                    size_of(value)
                elif isinstance(column.default, bytes):
                    memoryview(value)
                column.write([len(value) if has_frames else value])
            except UNWRITABLE as error:
                kind = TypeError if isinstance(error, (TypeError, AttributeError)) else ValueError
                raise kind(f"the field {name!r} of a {self._item.__name__} cannot be {shown(value)}") from error

    def read(self, reader: Any, most: int, frames: Iterator[Any]) -> Batch[Any]:
        read = reader._get_by_field  # noqa: SLF001 - see the module's docstring
        count = read(self._count)
        if not 0 < count <= most:
            raise ProtocolError(f"a batch has {count} items: expected from 1 to {MESSAGE_ITEMS} in the whole message")
        columns: list[Iterable[Any]] = []
        for _, _, schema, column, has_frames in self._fields:
            raw = read(schema)
            if not len(raw):
                columns.append(repeat(column.default, count))
                continue
            values = column.read(raw, count)
            if has_frames:
                values = [_take(frames, length) for length in values]
            columns.append(values)
        return self._batch(map(self._item, *columns))


def _take(frames: Iterator[Any], length: int) -> tuple[Any, ...]:
    taken = tuple(islice(frames, length))
    if len(taken) != length:
        raise ProtocolError("the message has fewer payload frames than its header announces")
    return taken


class _DirectionCodec:
    def __init__(self, direction: Direction) -> None:
        self.number = direction.number
        self.schema = getattr(SCHEMAS[direction.schema], direction.name)
        fields, union = self.schema.schema.fields, self.schema.Batch.schema.fields
        self.direction_field = fields["direction"]
        self.batches_field = fields["batches"]
        self.is_numbered = "number" in fields
        self.by_item: dict[type, _ItemCodec] = {}
        self.by_name: dict[str, _ItemCodec] = {}
        for batch in direction.batches:
            name = union_name(batch.item)
            self.by_item[batch.item] = self.by_name[name] = _ItemCodec(batch, union[name])
        self.stencils = Stencils(
            list(map(_item_kind, direction.batches)),
            lambda items: _encode(self, items)[0],
            _NUMBERS_AT if self.is_numbered else None,
        )


def _item_kind(batch: type[Batch[Any]]) -> ItemKind:
    columns = [
        ColumnKind(
            name,
            kind,
            column_of(kind, rule).default,
            most=most_of(rule),
            stretches=kind == "bytes" and rule is None,
            check=are_options if rule == OPTIONS else None,
        )
        for name, (kind, rule) in column_kinds(batch.item).items()
    ]
    return ItemKind(batch.item, batch, columns)


class _Codecs(dict[str, _DirectionCodec]):
    """The codecs, by direction, each made at its first use. A client never needs the codecs of processors."""

    def __missing__(self, name: str) -> _DirectionCodec:
        codec = self[name] = _DirectionCodec(next(each for each in DIRECTIONS if each.name == name))
        return codec


_CODECS = _Codecs()


def prepare(direction: Direction, items: Sequence[Any] = ()) -> None:
    """Make the codec of a direction now, for example before a process forks other processes that need the codec.

    Args:
        items: the items of a message for which a stencil is cut; may be empty.
    """
    _CODECS[direction.name].stencils.prepare(items)


def check_item(direction: Direction, item: Any) -> None:
    """Raise if an item cannot be encoded, alone or in a message with other items.

    Raises:
        TypeError: if a field has the wrong type.
        ValueError: if a field is out of range.
        KjException: if the Cap'n Proto library refuses the item.
    """
    _CODECS[direction.name].by_item[type(item)].check(item)
    encode_message(direction, [item])


def encode(
    direction: Direction, items: Sequence[Any], counts: defaultdict[type, int] | None = None
) -> list[tuple[bytes, list[Any]]]:
    """Write items as unnumbered messages, in order. Consecutive items of one type share a batch of columns.

    Args:
        counts: the numbers of items written so far, by class (`Traffic.items`), to which this call adds `items`.

    Returns:
        the header frame and the payload frames of each message, with up to `MESSAGE_ITEMS` items.
    """
    if len(items) <= MESSAGE_ITEMS:
        return [encode_message(direction, items, counts=counts)] if items else []
    starts = range(0, len(items), MESSAGE_ITEMS)
    return [encode_message(direction, items[start : start + MESSAGE_ITEMS], counts=counts) for start in starts]


def encode_message(
    direction: Direction,
    items: Sequence[Any],
    number: int = 0,
    heard: int = 0,
    counts: defaultdict[type, int] | None = None,
) -> tuple[bytes, list[Any]]:
    """Write items, at most `MESSAGE_ITEMS`, as one message. Return the header frame and the payload frames.

    Args:
        number: the number of the message in its session; 0 for an unnumbered message.
        heard: the highest number received from the other side.
        counts: as for `encode`.
    """
    codec = _CODECS[direction.name]
    if 0 < len(items) <= ITEMS_MOST:
        header = codec.stencils.write(items, number, heard)
        if header is not None:
            if counts is not None:
                for item in items:
                    counts[type(item)] += 1
            return header, []
    return _encode(codec, items, counts, number, heard)


def _encode(
    codec: _DirectionCodec,
    items: Sequence[Any],
    counts: defaultdict[type, int] | None = None,
    number: int = 0,
    heard: int = 0,
) -> tuple[bytes, list[Any]]:
    runs = [(type(items[0]), items)] if len(items) == 1 else [(kind, list(run)) for kind, run in groupby(items, type)]
    frames: list[Any] = []
    message = codec.schema.new_message()
    message._set("direction", codec.number)  # noqa: SLF001 - see the module's docstring
    if number:
        message._set("number", number)  # noqa: SLF001
    if heard:
        message._set("heard", heard)  # noqa: SLF001
    batches = message.init("batches", len(runs))
    for index, (kind, run) in enumerate(runs):
        item_codec = codec.by_item[kind]
        item_codec.write(batches[index].init(item_codec.name), run, frames)
        if counts is not None:
            counts[kind] += len(run)
    return message.to_bytes(), frames


def numbers(direction: Direction, header: bytes) -> tuple[int, int]:
    """Return `number` and `heard` of a message, without decoding its items.

    Raises:
        ProtocolError: if the bytes are not a message.
    """
    try:
        if len(header) >= _HEAD.size:
            segments, root, number, heard = _HEAD.unpack_from(header)
            if not segments and root == _ROOT_POINTER:
                return number, heard
        message = open_message(_CODECS[direction.name].schema, header)
        return message.number, message.heard
    except Exception as error:
        raise ProtocolError(f"the bytes are not a {direction.name} message: {first_line(error)}") from error


def with_heard(header: bytes, heard: int) -> bytes:
    """Return the header of an encoded message, with the field `heard` replaced."""
    segments = int.from_bytes(header[:4], "little")
    place = _NUMBERS_AT + 4 * (segments + segments % 2)
    return header[: place + 8] + heard.to_bytes(8, "little") + header[place + 16 :]


def decode(direction: Direction, header: bytes, frames: Sequence[Any]) -> list[Batch[Any]]:
    """Read one message from its header frame and its payload frames, which become parts of the items.

    Raises:
        ProtocolError: if the bytes are not a message of that direction.
    """
    codec = _CODECS[direction.name]
    if not frames:
        known = codec.stencils.read(header)
        if known is not None:
            return known
    supply = iter(frames)
    try:
        batches = _decode(codec, open_message(codec.schema, header), supply)
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"the bytes are not a {direction.name} message: {first_line(error)}") from error
    if next(supply, None) is not None:
        raise ProtocolError("the message has more payload frames than its header announces")
    if not frames:
        codec.stencils.learn(batches)
    return batches


def _decode(codec: _DirectionCodec, message: Any, frames: Iterator[Any]) -> list[Batch[Any]]:
    direction = message._get_by_field(codec.direction_field)  # noqa: SLF001
    if direction != codec.number:
        raise ProtocolError(f"the message has direction {direction}, and direction {codec.number} was expected")
    batches = []
    most = MESSAGE_ITEMS
    for reader in message._get_by_field(codec.batches_field):  # noqa: SLF001
        item_codec = codec.by_name[reader._which_str()]  # noqa: SLF001
        batch = item_codec.read(reader._get_by_field(item_codec.union_field), most, frames)  # noqa: SLF001
        most -= len(batch)
        batches.append(batch)
    return batches
