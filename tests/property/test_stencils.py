"""The short way through the codec says the same as the long way, with any items and any bytes."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.wire.codec import codec
from scaler.wire.codec.columns import Rule, column_kinds
from scaler.wire.codec.schemas import read
from scaler.wire.codec.stencils import SEEN_BEFORE_CUT
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import OPTIONS, Batch, UpperLimit
from scaler.wire.messages.directions import DIRECTIONS, Direction
from tests.support.examples import examples
from tests.support.items import items_of

ALL = [pytest.param(d, b, id=f"{d.name}-{b.item.__name__}") for d in DIRECTIONS for b in d.batches]
WIDTHS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


def greatest(kind: str, rule: Rule) -> int:
    """Return the greatest number that is read."""
    if isinstance(rule, UpperLimit):
        return rule.most
    return len(rule) - 1 if isinstance(rule, type) else 2 ** (8 * WIDTHS[kind]) - 1


def of_the_same_shape(item: Any) -> st.SearchStrategy[Any]:
    """Items with values of the same lengths, and zeros in the same places."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, (kind, rule) in column_kinds(type(item)).items():
        value = getattr(item, name)
        if rule == OPTIONS and value:
            fields[name] = st.integers(0, 9).map(lambda retries: RunOptions(profiling=True, retries=retries).encode())
        elif kind in ("id", "bytes"):
            fields[name] = st.binary(min_size=len(value), max_size=len(value))
        elif kind == "i32" and value:
            fields[name] = st.integers(-(2**31), -1) | st.integers(1, 2**31 - 1)
        elif kind in WIDTHS and value:
            fields[name] = st.integers(1, greatest(kind, rule))
        else:
            fields[name] = st.just({"text": "", "frames": ()}.get(kind, 0))
    return st.builds(type(item), **fields)


def long_way(direction: codec._DirectionCodec, header: bytes) -> list[Any] | None:
    """What the codec reads without stencils; None if it refuses."""
    try:
        return codec._decode(direction, read(direction.schema, header), iter(()))
    except Exception:  # noqa: BLE001 - as `decode` does, which has stencils of its own
        return None


def draw_rows(direction: Direction, batch: type[Batch[Any]], data: st.DataObject) -> list[list[Any]]:
    """Messages of one shape, of one item or of some, neighbours of one kind among them: enough for a stencil, and one
    more.
    """
    models = [data.draw(items_of(batch.item))]
    for _ in range(data.draw(st.sampled_from([0, 0, 1, 2, 3]))):
        other = data.draw(st.sampled_from(direction.batches)).item
        models.append(models[-1] if type(models[-1]) is other else data.draw(items_of(other)))
    shapes = [of_the_same_shape(model) for model in models]
    return [[data.draw(shape) for shape in shapes] for _ in range(SEEN_BEFORE_CUT * len(models) + 1)]


def in_batches(items: list[Any]) -> list[list[Any]]:
    """Neighbours of one kind are in one batch."""
    return [list(batch) for _, batch in itertools.groupby(items, type)]


@pytest.mark.parametrize(("direction", "batch"), ALL)
@examples(3)
@given(data=st.data())
def test_a_stencil_writes_and_reads_what_the_library_does(
    direction: Direction, batch: type[Batch[Any]], data: st.DataObject
) -> None:
    writer, reader = codec._DirectionCodec(direction), codec._DirectionCodec(direction)
    rows = draw_rows(direction, batch, data)
    for items in rows[:-1]:
        assert writer.stencils.write(items) is None
        header, _ = codec._encode(writer, items)
        assert reader.stencils.read(header) is None
        reader.stencils.learn(long_way(reader, header) or [])
    items = rows[-1]
    header, _ = codec._encode(writer, items)
    assert writer.stencils.write(items) == header
    batches = reader.stencils.read(header)
    assert batches == long_way(reader, header) == in_batches(items)
    assert [type(read).item for read in batches or ()] == [type(batch[0]) for batch in in_batches(items)]


STRETCHING = [
    pytest.param(d, b, id=f"{d.name}-{b.item.__name__}")
    for d in DIRECTIONS
    for b in d.batches
    if codec._item_kind(b).stretch is not None
]


@pytest.mark.parametrize(("direction", "batch"), STRETCHING)
@examples(3)
@given(data=st.data())
def test_one_value_may_have_any_length(direction: Direction, batch: type[Batch[Any]], data: st.DataObject) -> None:
    known = codec._DirectionCodec(direction)
    kind = codec._item_kind(batch)
    assert kind.stretch is not None
    name = kind.columns[kind.firm[kind.stretch]].name
    items = draw_rows(direction, batch, data)[0]
    lengths = data.draw(st.lists(st.integers(1, 1500), min_size=SEEN_BEFORE_CUT, max_size=2 * SEEN_BEFORE_CUT))
    for number, length in enumerate(lengths):
        stretched = [dataclasses.replace(items[0], **{name: bytes([number]) * length}), *items[1:]]
        header, _ = codec._encode(known, stretched)
        written = known.stencils.write(stretched)
        assert written in (None, header)
        assert number < SEEN_BEFORE_CUT or len(items) > 1 or written == header
        found = known.stencils.read(header)
        assert found is None or found == long_way(known, header) == in_batches(stretched)


@pytest.mark.parametrize(("direction", "batch"), ALL)
@examples(3)
@given(data=st.data())
def test_damaged_bytes_that_a_stencil_reads_are_read_equally_by_pycapnp(
    direction: Direction, batch: type[Batch[Any]], data: st.DataObject
) -> None:
    reader = codec._DirectionCodec(direction)
    rows = draw_rows(direction, batch, data)
    for items in rows:
        reader.stencils.write(items)
    sound, _ = codec._encode(reader, rows[0])
    chance = random.Random(data.draw(st.integers(0, 2**32 - 1)))  # a draw for each byte takes most of the time
    header = bytearray(sound)
    for place in range(len(header)):
        header[place] ^= chance.randint(1, 255) if place % 8 == 0 else 0x80
        batches = reader.stencils.read(bytes(header))
        if batches is not None:
            assert batches == long_way(reader, bytes(header))
        if chance.random() < 0.5:
            header = bytearray(sound)
