"""ItemKind: the shape of the items of a message class, and the values for which their stencils have holes.

Made by the codec from the annotations of the class; used by the tables of stencils. Values are not interpreted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

Shape: TypeAlias = tuple[Any, ...]

FORMATS = {"u8": ("B", 1), "u16": ("H", 2), "u32": ("I", 4), "u64": ("Q", 8), "i32": ("i", 4)}
"""the format of the `struct` module and the size in bytes, for each kind of number column"""
_SIZED = ("id", "bytes")
_LOOSE = ("text", "frames")


class ColumnKind(NamedTuple):
    """The column of one field of a message class."""

    name: str
    kind: str
    default: Any
    most: int | None
    """the greatest number that is accepted; None if there is no limit"""
    stretches: bool = False
    """whether the values are bytes of any length and content"""
    check: Callable[[Any], bool] | None = None
    """returns whether a value is valid; None if all values are valid"""


class ItemKind:
    """The columns of one message class, as stencils need them."""

    def __init__(self, item: type, batch: Callable[[Sequence[Any]], Any], columns: Sequence[ColumnKind]) -> None:
        self.item = item
        self.batch = batch
        self.columns = columns
        sized = [index for index, column in enumerate(columns) if column.kind in _SIZED]
        numbers = [index for index, column in enumerate(columns) if column.kind in FORMATS]
        self.firm = sized + numbers
        """the columns for which a stencil has holes; all other columns must be empty"""
        self.stretch = next((place for place, index in enumerate(sized) if columns[index].stretches), None)
        """the position, in `firm`, of the column for values of any length; None if there is no such column"""
        self._sized = tuple_getter(attrgetter, [columns[index].name for index in sized])
        self._numbers = tuple_getter(attrgetter, [columns[index].name for index in numbers])
        loose = [column.name for column in columns if column.kind in _LOOSE]
        self._loose = tuple_getter(attrgetter, loose) if loose else None

    def shape(self, item: Any) -> tuple[tuple[Any, ...], Shape] | None:
        """Return the values of `item` and the shape of these values; None if no stencil can hold the item."""
        if self._loose is not None and any(self._loose(item)):
            return None
        sized, numbers = self._sized(item), self._numbers(item)
        return sized + numbers, (self.item, *map(len, sized), *map(bool, numbers))

    def values(self, item: Any) -> tuple[Any, ...]:
        """Return the values of the `firm` columns of an item. Stencils have holes for these values."""
        return self._sized(item) + self._numbers(item)


def tuple_getter(make: Callable[..., Callable[[Any], Any]], keys: Sequence[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return `make(*keys)`, where `make` is like `itemgetter`, but even one key or no key gives a tuple."""
    if len(keys) > 1:
        return make(*keys)
    if not keys:
        return lambda _: ()
    get = make(*keys)
    return lambda source: (get(source),)
