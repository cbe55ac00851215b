"""Random items of every message class, made from the annotations of the codec."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from scaler.ids import ID_BYTES, NO_ID
from scaler.texts import printable
from scaler.wire.codec.columns import REASON_CHARACTERS, TEXT_CHARACTERS, Rule, column_kinds
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import NAMES, OPTIONS, REASON, Batch, FixedRows, UpperLimit
from scaler.wire.messages.directions import DIRECTIONS, Direction

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "u8": st.integers(0, 2**8 - 1),
    "u16": st.just(0) | st.integers(0, 2**16 - 1),
    "u32": st.just(0) | st.integers(0, 2**32 - 1),
    "u64": st.just(0) | st.integers(0, 2**64 - 1),
    "i32": st.just(0) | st.integers(-(2**31), 2**31 - 1),
    "id": st.just(NO_ID) | st.binary(min_size=ID_BYTES, max_size=ID_BYTES),
    "bytes": st.just(b"") | st.binary(max_size=40),
    "text": st.just("") | st.text(st.characters(codec="utf-8"), max_size=20),
    "frames": st.just(()) | st.lists(st.binary(max_size=20), max_size=3).map(tuple),
}


def values_of(kind: str, rule: Rule) -> st.SearchStrategy[Any]:
    """Return a strategy for the valid values of a field."""
    if isinstance(rule, FixedRows):
        rows = st.lists(st.binary(min_size=rule.size, max_size=rule.size), max_size=min(rule.most, 3))
        return rows.map(b"".join)
    if isinstance(rule, UpperLimit):
        return st.just(0) | st.integers(0, rule.most)
    if rule == OPTIONS:
        values = st.tuples(st.booleans(), st.booleans(), st.integers(0, 9))
        return values.map(lambda each: RunOptions(*each).encode())
    return st.integers(0, len(rule) - 1) if isinstance(rule, type) else VALUES[kind]


def items_of(item: type) -> st.SearchStrategy[Any]:
    """Return a strategy for the items of one message class."""
    fields = {name: values_of(kind, rule) for name, (kind, rule) in column_kinds(item).items()}
    return st.builds(item, **fields)


def batches_of(batch: type[Batch[Any]]) -> st.SearchStrategy[list[Any]]:
    """Return a strategy for a few items of one class; in half of the cases all columns have their defaults."""
    return st.lists(items_of(batch.item), min_size=1, max_size=5) | st.lists(
        st.just(default_item(batch.item)), min_size=1, max_size=5
    )


def mixed_items(direction: Direction) -> st.SearchStrategy[list[Any]]:
    """Return a strategy for items of a direction's classes, in runs."""
    runs = st.lists(st.one_of([batches_of(batch) for batch in direction.batches]), max_size=6)
    return runs.map(lambda lists: [item for run in lists for item in run])


def default_item(item: type) -> Any:
    """Return the item whose columns are all empty."""
    defaults = {"id": NO_ID, "bytes": b"", "text": "", "frames": ()}
    return item(**{name: defaults.get(kind, 0) for name, (kind, _) in column_kinds(item).items()})


def as_sent(item: Any) -> Any:
    """Return the item as it arrives: its frames as a tuple of bytes, and its texts printable."""
    values = {}
    for name, (kind, rule) in column_kinds(type(item)).items():
        value = getattr(item, name)
        if kind == "frames":
            value = tuple(map(bytes, value))
        elif rule == NAMES:
            value = ",".join(printable(each, TEXT_CHARACTERS) for each in value.split(","))
        elif kind == "text":
            value = printable(value, REASON_CHARACTERS if rule == REASON else TEXT_CHARACTERS)
        values[name] = value
    return type(item)(**values)


directions = st.sampled_from(DIRECTIONS)
