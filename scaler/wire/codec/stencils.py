"""Stencils: a fast path for small messages, most of which differ from the previous one in a few bytes only.

With one task at a time, each message holds an item or two. Writing or reading such a message through the schema costs
more than all other work on it. Messages of one **shape** (the same kinds of items, the same lengths, zeros in the same
fields) have the same bytes except for the values. So after some messages of a shape, a stencil is cut for the shape
(`stencil.py`). Consecutive items of one kind share one batch of columns. Such items must have equal shapes, or the
message has no stencil.

The length of arguments and results differs in almost every message. So a second table has the shapes without this
length. Its stencils take about a microsecond more, and are used if no stencil of the first table fits. If a length is
very frequent, in written or in read messages, the first table gets a stencil for this length.

All other messages go through the codec. Stencils and codec give the same items, so peers need not know of stencils. The
size of the tables is limited, whatever peers send.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

from scaler.wire.codec.item_kinds import ItemKind, Shape
from scaler.wire.codec.stencil import Cutter, Hole, Stencil, StretchStencil, Write

ITEMS_MOST = 4
"""The most items of a message with a stencil."""
SEEN_BEFORE_CUT = 8
"""For a shape with n items, a stencil is cut after n times this many messages. A cut costs as much as 10 n messages."""
SEEN_BEFORE_CUT_TWICE = 128
"""After a stencil for any length has served this many messages of one length, a stencil for this length is cut."""
SHAPES_MOST = 1024
"""The most shapes that are remembered for one direction. When there are more, all shapes are forgotten."""
CANDIDATES_MOST = 16
"""The most stencils for one message size, and the most for any length. Each one that is tried in vain takes time."""


class _Seen:
    """Counts the messages of a shape that has no stencil of its own."""

    __slots__ = ("count", "stretch")

    def __init__(self) -> None:
        self.count = 0
        """the number of messages of the shape; negative if no stencil can be cut"""
        self.stretch: StretchStencil | None = None
        """the stencil for messages of this shape with one value of any length; None if no such stencil was cut"""


class Stencils:
    """The stencils of one direction.

    Args:
        kinds: the message classes of the direction.
        write: writes items with the codec, without numbers.
        numbers_at: the offset of a message's number, which precedes the acknowledged number; None: no numbers.
    """

    def __init__(self, kinds: Sequence[ItemKind], write: Write, numbers_at: int | None) -> None:
        self._kinds = {kind.item: kind for kind in kinds}
        numbers = [] if numbers_at is None else [Hole(at, at + 8, "Q") for at in (numbers_at, numbers_at + 8)]
        self._cutter = Cutter(write, numbers)
        self._by_shape: dict[Shape, Stencil | _Seen] = {}
        self._by_stretch: dict[Shape, StretchStencil | int] = {}
        """by shape without the variable length: the stencil, or the number of messages; -1: no stencil can be cut"""
        self._by_size: dict[int, list[Stencil]] = {}
        self._of_any_size: list[StretchStencil] = []
        self._stretched: dict[int, int] = {}
        """by message size: how many messages the stencils for any length have read since the last cut for this size"""

    def write(self, items: Sequence[Any], number: int = 0, heard: int = 0) -> bytes | None:
        """Return the message of `items`; None if no stencil fits the items."""
        shaped = self._kinds[type(items[0])].shape(items[0]) if len(items) == 1 else self._shape(items)
        if shaped is None:
            return None
        values, shape = shaped
        known = self._by_shape.get(shape)
        stencil = known if type(known) is Stencil else self._count_shape(shape, items, known)
        if stencil is None:
            return None
        try:
            return stencil.write(values, number, heard)
        except struct.error:
            return None  # a number that is out of range: the codec reports the error

    def read(self, header: bytes) -> list[Any] | None:
        """Return the batches in `header`; None if no stencil fits."""
        for stencil in self._by_size.get(len(header), ()):
            batches = stencil.read(header)
            if batches is not None:
                return batches
        tried = self._of_any_size
        for stretch_stencil in tried:
            batches = stretch_stencil.read(header)
            if batches is not None:
                if stretch_stencil is not tried[0]:  # the next message is likely to have the same shape
                    # A new list, because another thread may iterate over the old one.
                    self._of_any_size = [stretch_stencil, *(each for each in tried if each is not stretch_stencil)]
                self._count_read(len(header), batches)
                return batches
        return None

    def _count_read(self, size: int, batches: Sequence[Sequence[Any]]) -> None:
        """Count a message read by a stencil for any length. A very frequent size gets a stencil of its own."""
        count = self._stretched.get(size, 0) + 1
        if count < SEEN_BEFORE_CUT_TWICE:
            if len(self._stretched) >= SHAPES_MOST:
                self._stretched.clear()
            self._stretched[size] = count
            return
        del self._stretched[size]
        items = list(chain.from_iterable(batches))
        shaped = self._shape(items)
        if shaped is None:
            return
        seen = self._by_shape.get(shaped[1]) or self._new(shaped[1])
        if type(seen) is _Seen and seen.count >= 0:
            self._cut(shaped[1], items, seen)

    def learn(self, batches: Sequence[Sequence[Any]]) -> None:
        """Count a message that the codec has read, since more messages of its shape may follow."""
        if 0 < sum(map(len, batches)) <= ITEMS_MOST:
            items = list(chain.from_iterable(batches))
            shaped = self._shape(items)
            if shaped is not None:
                self._count_shape(shaped[1], items, self._by_shape.get(shaped[1]))

    def prepare(self, items: Sequence[Any]) -> None:
        """Cut the stencil for a message with these items now."""
        for _ in range(SEEN_BEFORE_CUT * len(items)):
            self.write(items)

    def _shape(self, items: Sequence[Any]) -> tuple[tuple[Any, ...], Shape] | None:
        kinds = self._kinds
        first = items[0]
        shaped = kinds[type(first)].shape(first)
        if len(items) == 1 or shaped is None:
            return shaped
        (values, shape), (_, previous) = shaped, shaped
        for item in items[1:]:
            more = kinds[type(item)].shape(item)
            if more is None or (more[1][0] is previous[0] and more[1] != previous):
                return None
            previous = more[1]
            values += more[0]
            shape += previous
        return values, shape

    def _count_shape(self, shape: Shape, items: Sequence[Any], seen: Stencil | _Seen | None) -> StretchStencil | None:
        """Count a message without a stencil of its own. Return the stencil for any length, if one existed before."""
        if seen is None:
            seen = self._new(shape)
        elif type(seen) is not _Seen:
            return None
        found = seen.stretch
        if found is None:
            found = seen.stretch = self._count_stretch(shape, items)
        if seen.count >= 0:
            seen.count += 1
            if seen.count == (SEEN_BEFORE_CUT * len(items) if found is None else SEEN_BEFORE_CUT_TWICE):
                self._cut(shape, items, seen)
        return found

    def _new(self, shape: Shape) -> _Seen:
        if len(self._by_shape) >= SHAPES_MOST:
            self._by_shape.clear()
            self._by_size.clear()
        seen = self._by_shape[shape] = _Seen()
        return seen

    def _cut(self, shape: Shape, items: Sequence[Any], seen: _Seen) -> None:
        stencil = self._cutter.cut([self._kinds[type(item)] for item in items], items)
        if stencil is None:
            seen.count = -1
            return
        of_size = self._by_size.setdefault(stencil.size, [])
        if len(of_size) < CANDIDATES_MOST:
            of_size.append(stencil)
        self._by_shape[shape] = stencil

    def _count_stretch(self, shape: Shape, items: Sequence[Any]) -> StretchStencil | None:
        kinds = [self._kinds[type(item)] for item in items]
        places = _stretches(kinds, shape)
        if len(places) != 1:
            return None
        (place, value), *_ = places
        stretched = (*shape[:place], *shape[place + 1 :])
        seen = self._by_stretch.get(stretched, 0)
        if not isinstance(seen, int):
            return seen
        if seen < 0:
            return None
        if not seen and len(self._by_stretch) >= SHAPES_MOST:
            self._by_stretch.clear()
            self._of_any_size.clear()
        self._by_stretch[stretched] = seen + 1
        if seen + 1 == SEEN_BEFORE_CUT * len(items):
            stencil = self._cutter.cut_stretch(kinds, items, value)
            if stencil is not None and len(self._of_any_size) < CANDIDATES_MOST:
                self._of_any_size.append(stencil)
            self._by_stretch[stretched] = stencil or -1
        return None


def _stretches(kinds: Sequence[ItemKind], shape: Shape) -> list[tuple[int, int]]:
    """Return the positions of each non-empty value of variable length: in the shape, and among all values."""
    found, n_before = [], 0
    for number, kind in enumerate(kinds, 1):
        if kind.stretch is not None:
            length = shape[n_before + number + kind.stretch]
            if length:
                found.append((n_before + number + kind.stretch, n_before + kind.stretch))
        n_before += len(kind.firm)
    return found
