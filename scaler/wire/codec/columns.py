"""Columns: how the values of one field of all items of a batch are written, read and checked.

Used by the codec. All input is untrusted. A writer refuses each value that a reader would refuse, except counts and the
numbers of enumerations, which only the reader checks.
"""

from __future__ import annotations

import functools
import struct
import typing
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from scaler.errors import ProtocolError
from scaler.ids import ID_BYTES, NO_ID
from scaler.texts import NAME_CHARACTERS, escaped, printable
from scaler.wire.codec.schemas import utf8
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import LINE, NAMES, OPTIONS, REASON, TRACEBACK, FixedRows, UpperLimit

TEXT_CHARACTERS = NAME_CHARACTERS
"""The most characters of a name or version, and of each name in a list. Longer texts are cut when read."""
REASON_CHARACTERS = 1024
"""The maximum number of characters of a sentence. A sentence may contain names and versions; a longer one is cut."""
TRACEBACK_CHARACTERS = 4096
"""The most characters of a traceback. Of a longer traceback, the end is kept."""
LINE_CHARACTERS = 8192
"""The most characters of a line that a task wrote. Of a longer line, the beginning is kept."""

NAMES_MOST = 65_536
"""the limit on the names in a list of names, checked before the list is split"""

_ID = f"{ID_BYTES}s"

Rule: TypeAlias = type[IntEnum] | UpperLimit | FixedRows | str | None
"""The condition for the values of a field, besides its column's type: the second part of the field's annotation."""


class ColumnCodec(NamedTuple):
    """Writes, reads and checks the values of one field."""

    default: Any
    write: Callable[[list[Any]], Any]
    read: Callable[[Any, int], Iterable[Any]]


def _same(values: list[Any]) -> Any:
    return values


def _write_texts(values: list[str]) -> list[bytes]:
    return [utf8(value) for value in values]


def _read_list(reader: Any, count: int) -> list[Any]:
    if len(reader) != count:
        raise ProtocolError(f"a column has {len(reader)} entries for {count} items")
    return list(reader)


def _read_options(reader: Any, count: int) -> list[bytes]:
    values = _read_list(reader, count)
    for value in set(values):
        RunOptions.decode(value)
    return values


def are_options(value: bytes) -> bool:
    """Return whether the bytes are either empty or encoded `RunOptions`."""
    try:
        RunOptions.decode(value)
    except ProtocolError:
        return False
    return True


def _read_texts(reader: Any, count: int) -> Iterable[str]:
    return [printable(text, TEXT_CHARACTERS) for text in _read_list(reader, count)]


def _read_reasons(reader: Any, count: int) -> Iterable[str]:
    return [printable(text, REASON_CHARACTERS) for text in _read_list(reader, count)]


def _read_tracebacks(reader: Any, count: int) -> Iterable[str]:
    return [escaped(text[-TRACEBACK_CHARACTERS:], "\n") for text in _read_list(reader, count)]


def _read_lines(reader: Any, count: int) -> Iterable[str]:
    return [escaped(text[:LINE_CHARACTERS], "\t") for text in _read_list(reader, count)]


def _read_names(reader: Any, count: int) -> Iterable[str]:
    return [_printable_names(text) for text in _read_list(reader, count)]


def _printable_names(text: str) -> str:
    if text.count(",") >= NAMES_MOST:
        raise ProtocolError(f"a list has more than {NAMES_MOST} names")
    names = text.split(",")
    if text.isprintable() and max(map(len, names)) <= TEXT_CHARACTERS:
        return text  # an agent may have 65,535 of them
    return ",".join(printable(name, TEXT_CHARACTERS) for name in names)


def _read_bytes(data: bytes, count: int) -> Iterable[int]:
    if len(data) != count:
        raise ProtocolError(f"a byte column has {len(data)} entries for {count} items")
    return data


def _read_ids(data: bytes, count: int) -> Iterable[bytes]:
    if len(data) != count * ID_BYTES:
        raise ProtocolError(f"an id column has {len(data)} bytes for {count} items")
    return struct.Struct(_ID * count).unpack(data)  # a third of the time of slices


def _number_column(code: str) -> ColumnCodec:
    """Return a column whose numbers follow one another in the format `code` of the `struct` module."""
    size = struct.calcsize(f"<{code}")

    def write(values: list[int]) -> bytes:
        try:
            return struct.pack(f"<{len(values)}{code}", *values)
        except struct.error as error:
            raise OverflowError(f"a number is out of range: {error}") from error

    def read(data: bytes, count: int) -> Iterable[int]:
        if len(data) != count * size:
            raise ProtocolError(f"a column has {len(data)} bytes for {count} numbers of {size} bytes each")
        return struct.unpack(f"<{count}{code}", data)

    return ColumnCodec(0, write, read)


_COLUMNS = {
    "u8": ColumnCodec(0, bytes, _read_bytes),
    "u16": _number_column("H"),
    "u32": _number_column("I"),
    "u64": _number_column("Q"),
    "i32": _number_column("i"),
    "id": ColumnCodec(NO_ID, b"".join, _read_ids),
    "bytes": ColumnCodec(b"", _same, _read_list),
    "text": ColumnCodec("", _write_texts, _read_texts),
    "frames": _number_column("I")._replace(default=()),
}
_SPECIAL = {
    NAMES: ColumnCodec("", _write_texts, _read_names),
    REASON: ColumnCodec("", _write_texts, _read_reasons),
    TRACEBACK: ColumnCodec("", _write_texts, _read_tracebacks),
    LINE: ColumnCodec("", _write_texts, _read_lines),
    OPTIONS: ColumnCodec(b"", _same, _read_options),
}


def _enumeration_column(numbers: type[IntEnum]) -> ColumnCodec:
    """Return a byte column whose values are the numbers of an enumeration: 0, 1, 2, ... without a gap."""
    most = len(numbers) - 1
    assert sorted(numbers) == list(range(most + 1))

    def read(data: bytes, count: int) -> Iterable[int]:
        if max(data) > most:
            raise ProtocolError(f"the byte {max(data)} is not a {numbers.__name__}")
        return _read_bytes(data, count)

    return ColumnCodec(0, bytes, read)


def _bounded_column(column: ColumnCodec, most: int) -> ColumnCodec:

    def read(data: bytes, count: int) -> Iterable[int]:
        values = tuple(column.read(data, count))
        if max(values) > most:
            raise ProtocolError(f"a number is {max(values):,}, and may be at most {most:,}")
        return values

    return column._replace(read=read)


def _rows_column(rows: FixedRows) -> ColumnCodec:
    def check(values: list[bytes]) -> list[bytes]:
        for n_bytes in set(map(len, values)):
            if n_bytes % rows.size or n_bytes > rows.most * rows.size:
                raise ProtocolError(
                    f"a value has {n_bytes} bytes: expected at most {rows.most} rows, each of {rows.size} bytes"
                )
        return values

    return ColumnCodec(b"", check, lambda reader, count: check(_read_list(reader, count)))


def column_of(kind: str, rule: Rule) -> ColumnCodec:
    """Return the column for the two parts of a field's annotation: the kind and the rule."""
    if isinstance(rule, FixedRows):
        return _rows_column(rule)
    if isinstance(rule, UpperLimit):
        return _bounded_column(_COLUMNS[kind], rule.most)
    if isinstance(rule, type):
        return _enumeration_column(rule)
    return _COLUMNS[kind] if rule is None else _SPECIAL[rule]


def most_of(rule: Rule) -> int | None:
    """Return the greatest number that a rule allows; None if the rule has no limit."""
    if isinstance(rule, UpperLimit):
        return rule.most
    return len(rule) - 1 if isinstance(rule, type) else None


@functools.cache
def column_kinds(item: type) -> dict[str, tuple[str, Rule]]:
    """Return a map from each field name of a message class to its column kind and rule."""
    hints = typing.get_type_hints(item, include_extras=True)
    return {
        name: (hint.__metadata__[0], hint.__metadata__[1] if len(hint.__metadata__) > 1 else None)
        for name, hint in hints.items()
    }
