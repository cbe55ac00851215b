"""Stencil: the bytes that all messages of one shape share, with holes for their values.

Cut and kept by the table of a direction (`stencils.py`). Comparing two messages that differ in one value shows where
that value lies. With a stencil, a message is written by filling the holes. A message is read by comparing the bytes
around the holes and taking the values out.

One value may have any length: the arguments or the result of a task, whose length differs in almost every message. The
bytes after this value move, and some words before the value depend on its length: the size of the message, the
positions of moved parts, the length itself. Messages with three lengths show how these words change.

A stencil accepts exactly what the codec accepts, and writes what the codec reads as the same items.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from scaler.wire.codec.item_kinds import FORMATS, ColumnKind, ItemKind, tuple_getter

MESSAGE_BYTES_MOST = 2048
"""The limit on the size of a message with a stencil, not counting a value that may have any length."""

Write: TypeAlias = Callable[[Sequence[Any]], bytes]

_WORD = struct.Struct("<I")
_BYTE_LIST = 2
"""the low three bits of the word that encodes the length of a value; they mark a list of bytes"""
_PADDING = [bytes(-length % 8) for length in range(8)]
_CHECKED_LENGTHS = (3, 64, 1000)


class Hole(NamedTuple):
    """The place of a value in a message."""

    start: int
    end: int
    format: str

    def before(self, offset: int) -> Hole:
        """Return this hole with positions relative to `offset`, where a part of the message starts."""
        return Hole(self.start - offset, self.end - offset, self.format)


class _Word(NamedTuple):
    """A word of a message that depends on the length of one value in the message."""

    start: int
    plain: int
    per_word: int
    per_byte: int

    def of(self, length: int, n_words: int) -> int:
        return self.plain + self.per_word * n_words + self.per_byte * length


class _Layout:
    """The fixed bytes of a message around its holes."""

    def __init__(self, message: bytes, holes: Sequence[Hole]) -> None:
        edges = [0, *(edge for hole in holes for edge in hole[:2]), len(message)]
        self.around = tuple(message[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
        formats = [f"{len(part)}s{hole.format}" for part, hole in zip(self.around, holes, strict=False)]
        self._layout = struct.Struct("<" + "".join(formats) + f"{len(self.around[-1])}s")
        self.parts: list[Any] = [b""] * (2 * len(holes) + 1)
        self.parts[::2] = self.around
        self.pack, self.unpack_from = self._layout.pack, self._layout.unpack_from
        self.size = self._layout.size

    def fill(self, values: tuple[Any, ...]) -> bytes:
        parts = self.parts.copy()
        parts[1::2] = values
        return self.pack(*parts)

    def take(self, message: bytes, start: int = 0) -> tuple[Any, ...] | None:
        """Return the values in a message; None if the bytes around the values differ from this layout."""
        parts = self.unpack_from(message, start)
        return parts[1::2] if parts[::2] == self.around else None


class _Takers:
    """Makes items from the `n_found` values that were taken out of a message.

    Args:
        place_of: maps the number of a value, counted over the `firm` columns of all items, to its position among the
            found values. A value that is missing here is the default of its column.
    """

    def __init__(self, kinds: Sequence[ItemKind], place_of: dict[int, int], n_found: int) -> None:
        self._defaults = tuple(column.default for kind in kinds for column in kind.columns)
        self._takers: list[tuple[ItemKind, list[Callable[[Any], tuple[Any, ...]]]]] = []
        """the kind of each batch, and a getter for each item in it; consecutive items of one kind share a batch"""
        self._limits: list[tuple[int, int]] = []
        self._checks: list[tuple[int, Callable[[Any], bool]]] = []
        n_values = n_columns = 0
        for kind in kinds:
            places = list(range(n_found + n_columns, n_found + n_columns + len(kind.columns)))
            for index in kind.firm:
                place = place_of.get(n_values)
                if place is not None:
                    places[index] = place
                    column = kind.columns[index]
                    if column.most is not None:
                        self._limits.append((place, column.most))
                    if column.check is not None:
                        self._checks.append((place, column.check))
                n_values += 1
            n_columns += len(kind.columns)
            if not self._takers or self._takers[-1][0] is not kind:
                self._takers.append((kind, []))
            self._takers[-1][1].append(tuple_getter(itemgetter, places))
        self._only = (self._takers[0][0], self._takers[0][1][0]) if len(kinds) == 1 else None

    def batches(self, values: tuple[Any, ...]) -> list[Any] | None:
        for place, most in self._limits:
            if values[place] > most:
                return None
        if self._checks and not all(check(values[place]) for place, check in self._checks):
            return None
        values += self._defaults
        if self._only is not None:
            kind, take = self._only
            return [kind.batch((kind.item(*take(values)),))]
        return [kind.batch([kind.item(*take(values)) for take in takes]) for kind, takes in self._takers]


class Stencil:
    """The stencil of one shape.

    Args:
        numbers: the holes for the number of the message and for the acknowledged number; may be empty.
        present: for each of the other holes: the number of its value, counted over the `firm` columns of all items.
    """

    def __init__(
        self,
        message: bytes,
        numbers: Sequence[Hole],
        holes: Sequence[Hole],
        present: Sequence[int],
        kinds: Sequence[ItemKind],
    ) -> None:
        self._layout = _Layout(message, [*numbers, *holes])
        self._present = tuple_getter(itemgetter, present)
        self._n_numbers = len(numbers)
        place_of = {value: place for place, value in enumerate(present, len(numbers))}
        self._batches = _Takers(kinds, place_of, len(numbers) + len(holes)).batches
        # Inlined `_Layout.take` and `_Layout.fill`, to save a call for each message.
        self._unpack_from, self._around = self._layout.unpack_from, self._layout.around
        self._pack, self._parts = self._layout.pack, self._layout.parts
        self.size = self._layout.size

    def write(self, values: tuple[Any, ...], number: int, heard: int) -> bytes:
        parts = self._parts.copy()
        parts[1::2] = (number, heard, *self._present(values)) if self._n_numbers else self._present(values)
        return self._pack(*parts)

    def read(self, header: bytes) -> list[Any] | None:
        """Return the batches in `header`, which must have the size of the stencil; None if the shape differs."""
        parts = self._unpack_from(header)
        return self._batches(parts[1::2]) if parts[::2] == self._around else None


class StretchStencil:
    """The stencil of one shape with a value of any length.

    Args:
        message: a message in which the value of any length is a single byte, at `start`.
        words: the words that depend on the length of this value. The first one that grows with each byte is the length.
        stretch: the number of this value, counted as for `Stencil`.
    """

    def __init__(
        self,
        message: bytes,
        start: int,
        words: Sequence[_Word],
        numbers: Sequence[Hole],
        holes: Sequence[Hole],
        present: Sequence[int],
        stretch: int,
        kinds: Sequence[ItemKind],
    ) -> None:
        spots = [*numbers, *holes, *(Hole(word.start, word.start + 4, "I") for word in words)]
        order = sorted(range(len(spots)), key=spots.__getitem__)
        n_head = sum(spot.start < start for spot in spots)
        self._head = _Layout(message[:start], [spots[index] for index in order[:n_head]])
        self._tail = _Layout(message[start + 8 :], [spots[index].before(start + 8) for index in order[n_head:]])
        self._in_order = tuple_getter(itemgetter, order)
        self._n_head, self._start, self._stretch = n_head, start, stretch
        self._words = words
        self._length_at = next(word.start for word in words if word.per_byte)
        self._size = self._head.size + self._tail.size
        self._present = tuple_getter(itemgetter, present)
        self._n_numbers = len(numbers)
        place_of = {value: order.index(spot) for spot, value in enumerate(present, len(numbers))}
        self._word_places = [order.index(spot) for spot in range(len(numbers) + len(holes), len(spots))]
        self._takers = _Takers(kinds, place_of | {stretch: len(spots)}, len(spots) + 1)

    def write(self, values: tuple[Any, ...], number: int, heard: int) -> bytes:
        stretch = values[self._stretch]
        if type(stretch) is not bytes:
            raise struct.error(f"bytes were expected, not {type(stretch).__name__}")
        length = len(stretch)
        n_words = (length + 7) >> 3
        words = [plain + per_word * n_words + per_byte * length for _, plain, per_word, per_byte in self._words]
        present = self._present(values)
        spots = (number, heard, *present, *words) if self._n_numbers else (*present, *words)
        spots = self._in_order(spots)
        n_head = self._n_head
        head, tail = self._head.fill(spots[:n_head]), self._tail.fill(spots[n_head:])
        return b"".join((head, stretch, _PADDING[length & 7], tail))

    def read(self, header: bytes) -> list[Any] | None:
        """Return the batches in `header`; None if `header` has another shape."""
        if len(header) < self._size:
            return None
        length = _WORD.unpack_from(header, self._length_at)[0] >> 3
        n_words = (length + 7) >> 3
        if len(header) != self._size + 8 * n_words or not length:
            return None
        head = self._head.take(header)
        tail = self._tail.take(header, self._start + 8 * n_words) if head is not None else None
        if head is None or tail is None:
            return None
        values = (*head, *tail, header[self._start : self._start + length])
        for place, (_, plain, per_word, per_byte) in zip(self._word_places, self._words, strict=True):
            if values[place] != plain + per_word * n_words + per_byte * length:
                return None
        return self._takers.batches(values)


class Cutter:
    """Cuts the stencils of one direction.

    Args:
        write: writes items with the codec, without numbers.
        numbers: the holes for the numbers, as for a `Stencil`.
    """

    def __init__(self, write: Write, numbers: Sequence[Hole]) -> None:
        self._write = write
        self._numbers = numbers

    def cut(self, kinds: Sequence[ItemKind], items: Sequence[Any]) -> Stencil | None:
        """Return the stencil for the shape of `items`; None if it is too large, or a value is not found in the
        message.
        """
        values = _values(kinds, items)
        if values is None:
            return None
        plain = self._probe(kinds, values)
        if len(plain) > MESSAGE_BYTES_MOST:
            return None
        present = [index for index, value in enumerate(values) if value]
        holes = self._holes(kinds, values, plain, present)
        if holes is None:
            return None
        in_order = sorted(zip(holes, present, strict=True))
        holes, present = [hole for hole, _ in in_order], [index for _, index in in_order]
        stencil = Stencil(plain, self._numbers, holes, present, kinds)
        return stencil if stencil.write(tuple(values), 0, 0) == self._message(kinds, values) else None

    def cut_stretch(self, kinds: Sequence[ItemKind], items: Sequence[Any], stretch: int) -> StretchStencil | None:
        """Return the stencil for this shape with one value of any length; None in the same cases as `cut`."""
        found = _values(kinds, items)
        if found is None:
            return None
        before, behind = found[:stretch], found[stretch + 1 :]

        def of_length(length: int) -> list[Any]:
            return [*before, bytes([1]) * length, *behind]

        values = of_length(1)
        plain, longer, wider = (self._probe(kinds, of_length(length)) for length in (1, 2, 9))
        if len(plain) > MESSAGE_BYTES_MOST:
            return None
        present = [index for index, value in enumerate(values) if value and index != stretch]
        where = self._holes(kinds, values, plain, [stretch])
        holes = self._holes(kinds, values, plain, present)
        if not where or holes is None:
            return None
        start = where[0].start
        words = _words(plain, longer, wider, start)
        if words is None:
            return None
        stencil = StretchStencil(plain, start, words, self._numbers, holes, present, stretch, kinds)
        samples = [of_length(length) for length in _CHECKED_LENGTHS]
        is_right = all(stencil.write(tuple(each), 0, 0) == self._message(kinds, each) for each in samples)
        return stencil if is_right else None

    def _holes(
        self, kinds: Sequence[ItemKind], values: list[Any], plain: bytes, present: Sequence[int]
    ) -> list[Hole] | None:
        """Return the places of the values at `present`; None if a place cannot be found, or two places overlap."""
        columns = _firm_columns(kinds)
        holes: list[Hole] = []
        for index in present:
            hole = _find_hole(plain, self._probe(kinds, values, index), columns[index], values[index])
            if hole is None:
                return None
            holes.append(hole)
        in_order = sorted(holes)
        overlap = any(one.end > other.start for one, other in pairwise(in_order))
        return None if overlap else holes

    def _probe(self, kinds: Sequence[ItemKind], values: list[Any], changed: int | None = None) -> bytes:
        """Return a message of the same shape: value number `changed` has bytes 0xFE, all other values 0x01."""
        probes = [
            _probe(column, value, 0xFE if index == changed else 0x01) if value else column.default
            for index, (column, value) in enumerate(zip(_firm_columns(kinds), values, strict=True))
        ]
        return self._message(kinds, probes)

    def _message(self, kinds: Sequence[ItemKind], values: list[Any]) -> bytes:
        supply = iter(values)
        return self._write([_rebuilt(kind, supply) for kind in kinds])


def _firm_columns(kinds: Sequence[ItemKind]) -> list[ColumnKind]:
    return [kind.columns[index] for kind in kinds for index in kind.firm]


def _values(kinds: Sequence[ItemKind], items: Sequence[Any]) -> list[Any] | None:
    """Return the values of the items; None if any value is neither `bytes` nor `int`: only the codec can write it."""
    values = [value for kind, item in zip(kinds, items, strict=True) for value in kind.values(item)]
    return values if all(isinstance(value, (bytes, int)) for value in values) else None


def _words(plain: bytes, longer: bytes, wider: bytes, start: int) -> list[_Word] | None:
    """Return the words before `start` that depend on the length of the value there; None if no stencil is possible.

    Args:
        plain: a message in which the value has 1 byte.
        longer: the same message with a value of 2 bytes.
        wider: the same message with a value of 9 bytes.
    """
    end = start + 8
    if longer[start + 8 :] != plain[end:] or wider[start + 16 :] != plain[end:]:
        return None
    words = []
    for offset in range(0, start, 4):
        one, two, nine = (_WORD.unpack_from(message, offset)[0] for message in (plain, longer, wider))
        per_byte = two - one
        per_word = nine - one - 8 * per_byte
        if per_byte or per_word:
            words.append(_Word(offset, one - per_word - per_byte, per_word, per_byte))
    lengths = [word for word in words if word.per_byte]
    is_plain = [(word.plain, word.per_word, word.per_byte) for word in lengths] == [(_BYTE_LIST, 0, 8)]
    return words if is_plain else None


def _probe(column: ColumnKind, value: Any, byte: int) -> Any:
    """Return a value of the same size as the given value, in which each byte is `byte`."""
    if type(value) is bytes:
        return bytes([byte]) * len(value)
    return int.from_bytes(bytes([byte]) * FORMATS[column.kind][1], "little", signed=column.kind == "i32")


def _rebuilt(kind: ItemKind, firm_values: Any) -> Any:
    values = {index: next(firm_values) for index in kind.firm}
    return kind.item(*[values.get(index, column.default) for index, column in enumerate(kind.columns)])


def _find_hole(plain: bytes, changed: bytes, column: ColumnKind, value: Any) -> Hole | None:
    """Return the hole of a value, from two messages that differ in this value; None unless they differ only there."""
    if len(plain) != len(changed) or plain == changed:
        return None
    text, size = (f"{len(value)}s", len(value)) if type(value) is bytes else FORMATS[column.kind]
    differing = int.from_bytes(plain, "little") ^ int.from_bytes(changed, "little")
    start = ((differing & -differing).bit_length() - 1) // 8
    # Each byte of the value is 0x01 in one message and 0xFE in the other.
    return Hole(start, start + size, text) if differing >> (8 * start) == (1 << (8 * size)) - 1 else None
