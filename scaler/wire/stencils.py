"""Stencils: a short cut for small messages, most of which differ from the previous one in a few bytes only.

With one task at a time each message holds an item or two, and to write or read it through the schema costs more than
all other work on it. Messages of one **shape** (the same kinds of items, the same lengths, zeros in the same fields)
have the same bytes except for the values. So after some messages of a shape, a stencil of it is cut: writing messages
that differ in one value shows where that value lies. To write is then to fill the holes. To read is to compare the
bytes around the holes and to take the values out.

A message that fits no stencil goes the long way. Both ways give the same bytes and the same items, so no peer needs to
know of stencils. Must never: accept a message that the codec would refuse, or grow with the input of peers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeAlias

ITEMS_MOST = 2
"""The most items of a message with a stencil, each of a different kind."""
MESSAGE_BYTES_MOST = 2048
SEEN_BEFORE_CUT = 8
"""Cutting a stencil costs as much as about ten messages on the long way, so only repeated shapes get one."""
SHAPES_MOST = 1024
"""The shapes that are remembered for one direction; when there are more, all are forgotten."""
CANDIDATES_MOST = 16
"""The most stencils for messages of one size: each stencil that does not fit costs a comparison."""

Shape: TypeAlias = tuple[Any, ...]
Write: TypeAlias = Callable[[Sequence[Any]], bytes]

_FORMATS = {"u8": ("B", 1), "u16": ("H", 2), "u32": ("I", 4), "u64": ("Q", 8), "i32": ("i", 4)}
_LOOSE = ("text", "frames")


class ColumnKind(NamedTuple):
    """One field of a message class."""

    name: str
    kind: str
    default: Any
    most: int | None
    """the largest number of its enumeration, if it has one"""


class ItemKind:
    """One message class."""

    def __init__(self, item: type, batch: Callable[[Sequence[Any]], Any], columns: Sequence[ColumnKind]) -> None:
        self.item = item
        self.batch = batch
        self.columns = columns
        self.firm = [index for index, column in enumerate(columns) if column.kind not in _LOOSE]
        """columns that a stencil has holes for; the others must be empty"""
        self.values = _tuple_getter(attrgetter, [columns[index].name for index in self.firm])
        self.loose = _tuple_getter(attrgetter, [column.name for column in columns if column.kind in _LOOSE])

    def shape(self, item: Any) -> tuple[tuple[Any, ...], Shape] | None:
        """Return the values of `item` and their shape, or None if no stencil can hold it."""
        if any(self.loose(item)):
            return None
        values = self.values(item)
        return values, (self.item, *[len(value) if type(value) is bytes else value != 0 for value in values])


def _tuple_getter(make: Callable[..., Callable[[Any], Any]], keys: Sequence[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return `make(*keys)`, with a tuple as its result for any number of keys."""
    if len(keys) > 1:
        return make(*keys)
    if not keys:
        return lambda _: ()
    get = make(*keys)
    return lambda source: (get(source),)


class _Hole(NamedTuple):
    start: int
    end: int
    format: str


class _Stencil:
    """One shape: the bytes around the holes, and where the values belong."""

    def __init__(
        self,
        message: bytes,
        numbers: Sequence[_Hole],
        holes: Sequence[_Hole],
        present: Sequence[int],
        kinds: Sequence[ItemKind],
    ) -> None:
        n_numbers, holes = len(numbers), [*numbers, *holes]
        edges = [0, *(edge for hole in holes for edge in hole[:2]), len(message)]
        self._around = tuple(message[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
        formats = [f"{len(part)}s{hole.format}" for part, hole in zip(self._around, holes, strict=False)]
        self._layout = struct.Struct("<" + "".join(formats) + f"{len(self._around[-1])}s")
        self._parts: list[Any] = [b""] * (2 * len(holes) + 1)
        self._parts[::2] = self._around
        self._present = _tuple_getter(itemgetter, present)
        self._defaults = tuple(column.default for kind in kinds for column in kind.columns)
        self._takers: list[tuple[ItemKind, Callable[[Any], tuple[Any, ...]]]] = []
        self._limits: list[tuple[int, int]] = []
        self._n_numbers = n_numbers
        place_of = {value: place for place, value in enumerate(present, n_numbers)}
        n_values = n_columns = 0
        for kind in kinds:
            places = list(range(len(holes) + n_columns, len(holes) + n_columns + len(kind.columns)))
            for index in kind.firm:
                place = place_of.get(n_values)
                if place is not None:
                    places[index] = place
                    most = kind.columns[index].most
                    if most is not None:
                        self._limits.append((place, most))
                n_values += 1
            n_columns += len(kind.columns)
            self._takers.append((kind, _tuple_getter(itemgetter, places)))

    @property
    def size(self) -> int:
        return self._layout.size

    def write(self, values: tuple[Any, ...], number: int, heard: int) -> bytes:
        parts = self._parts.copy()
        present = self._present(values)
        parts[1::2] = (number, heard, *present) if self._n_numbers else present
        return self._layout.pack(*parts)

    def read(self, header: bytes) -> list[Any] | None:
        """Return the batches in `header`, or None if it is not of this shape."""
        parts = self._layout.unpack(header)
        if parts[::2] != self._around:
            return None
        values = parts[1::2]
        for place, most in self._limits:
            if values[place] > most:
                return None
        values += self._defaults
        return [kind.batch((kind.item(*take(values)),)) for kind, take in self._takers]


class Stencils:
    """The stencils of one direction.

    Args:
        kinds: the message classes of the direction.
        write: writes items the long way, without numbers.
        numbers_at: where the number of a message lies, and behind it the number that was heard; None if it has none.
    """

    def __init__(self, kinds: Sequence[ItemKind], write: Write, numbers_at: int | None) -> None:
        self._kinds = {kind.item: kind for kind in kinds}
        self._write = write
        self._numbers: list[_Hole] = []
        if numbers_at is not None:
            self._numbers = [_Hole(start, start + 8, "Q") for start in (numbers_at, numbers_at + 8)]
        self._by_shape: dict[Shape, _Stencil | int] = {}
        """the stencil, or how often the shape was seen; negative if no stencil can be cut"""
        self._by_size: dict[int, list[_Stencil]] = {}

    def write(self, items: Sequence[Any], number: int = 0, heard: int = 0) -> bytes | None:
        """Return the message of `items`, or None if there is no stencil for it."""
        shaped = self._shape(items)
        if shaped is None:
            return None
        stencil = self._by_shape.get(shaped[1], 0)
        if isinstance(stencil, int):
            self._saw(stencil, shaped[1], items)
            return None
        try:
            return stencil.write(shaped[0], number, heard)
        except struct.error:
            return None  # a number that does not fit: the long way reports the error

    def read(self, header: bytes) -> list[Any] | None:
        """Return the batches in `header`, or None if no stencil fits."""
        for stencil in self._by_size.get(len(header), ()):
            batches = stencil.read(header)
            if batches is not None:
                return batches
        return None

    def learn(self, batches: Sequence[Sequence[Any]]) -> None:
        """Learn from a message that was read the long way: others of its shape may follow."""
        if not 0 < len(batches) <= ITEMS_MOST or any(len(batch) > 1 for batch in batches):
            return
        items = [batch[0] for batch in batches]
        shaped = self._shape(items)
        if shaped is not None:
            seen = self._by_shape.get(shaped[1], 0)
            if isinstance(seen, int):
                self._saw(seen, shaped[1], items)

    def _shape(self, items: Sequence[Any]) -> tuple[tuple[Any, ...], Shape] | None:
        kinds = self._kinds
        first = items[0]
        shaped = kinds[type(first)].shape(first)
        if len(items) == 1 or shaped is None:
            return shaped
        second = items[1]
        if type(first) is type(second):
            return None  # they make one batch
        more = kinds[type(second)].shape(second)
        return None if more is None else (shaped[0] + more[0], shaped[1] + more[1])

    def _saw(self, seen: int, shape: Shape, items: Sequence[Any]) -> None:
        if len(self._by_shape) >= SHAPES_MOST and not seen:
            self._by_shape.clear()
            self._by_size.clear()
        if seen < 0:
            return
        self._by_shape[shape] = seen + 1
        if seen + 1 == SEEN_BEFORE_CUT:
            stencil = self._cut(items)
            self._by_shape[shape] = -1 if stencil is None else stencil
            if stencil is not None:
                self._by_size.setdefault(stencil.size, []).append(stencil)

    def _cut(self, items: Sequence[Any]) -> _Stencil | None:
        """Make the stencil for the shape of `items`; None if messages of it are too large, or not laid out plainly."""
        kinds = [self._kinds[type(item)] for item in items]
        values = [value for kind, item in zip(kinds, items, strict=True) for value in kind.values(item)]
        columns = [kind.columns[index] for kind in kinds for index in kind.firm]
        present = [index for index, value in enumerate(values) if value]
        if not all(isinstance(value, (bytes, int)) for value in values):
            return None  # bytes of another type, which only the long way can write

        def message(changed: int | None) -> bytes:
            probes = [
                _probe(column, value, 0xFE if index == changed else 0x01) if value else column.default
                for index, (column, value) in enumerate(zip(columns, values, strict=True))
            ]
            supply = iter(probes)
            return self._write([_rebuilt(kind, supply) for kind in kinds])

        plain = message(None)
        if len(plain) > MESSAGE_BYTES_MOST or len(self._by_size.get(len(plain), ())) >= CANDIDATES_MOST:
            return None
        holes: list[_Hole] = []
        for index in present:
            hole = _find_hole(plain, message(index), columns[index], values[index])
            if hole is None or (holes and hole.start < holes[-1].end):
                return None
            holes.append(hole)
        stencil = _Stencil(plain, self._numbers, holes, present, kinds)
        return stencil if stencil.write(tuple(values), 0, 0) == self._write(items) else None


def _probe(column: ColumnKind, value: Any, byte: int) -> Any:
    """Return a value of the size of `value`, each byte of it `byte`."""
    if type(value) is bytes:
        return bytes([byte]) * len(value)
    return int.from_bytes(bytes([byte]) * _FORMATS[column.kind][1], "little", signed=column.kind == "i32")


def _rebuilt(kind: ItemKind, firm_values: Any) -> Any:
    return kind.item(*[column.default if column.kind in _LOOSE else next(firm_values) for column in kind.columns])


def _find_hole(plain: bytes, changed: bytes, column: ColumnKind, value: Any) -> _Hole | None:
    """Return where the two messages differ, if that is one stretch of the size of the value."""
    if len(plain) != len(changed):
        return None
    differing = [offset for offset, (one, other) in enumerate(zip(plain, changed, strict=True)) if one != other]
    text, size = (f"{len(value)}s", len(value)) if type(value) is bytes else _FORMATS[column.kind]
    if len(differing) != size or differing[-1] - differing[0] != size - 1:
        return None
    return _Hole(differing[0], differing[-1] + 1, text)
