"""The codec, with any items and with any bytes."""

from __future__ import annotations

import contextlib
import tracemalloc
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.errors import ProtocolError
from scaler.wire.codec.codec import MESSAGE_ITEMS, decode, encode
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.directions import DIRECTIONS, Direction
from tests.support.examples import examples
from tests.support.items import as_sent, batches_of, default_item, directions, items_of, mixed_items

ALL = [pytest.param(d, b, id=f"{d.name}-{b.item.__name__}") for d in DIRECTIONS for b in d.batches]


def through(direction: Direction, items: list[Any]) -> list[Any]:
    """What arrives, item by item."""
    arrived = []
    for header, frames in encode(direction, items):
        for batch in decode(direction, header, [memoryview(frame) for frame in frames]):
            assert all(type(item) is type(batch).item for item in batch)
            arrived.extend(batch)
    return arrived


def is_refused_or_valid(direction: Direction, header: bytes, frames: list[Any]) -> bool:
    """Decode; anything but a message or a `ProtocolError` fails the test. Returns whether it was refused."""
    try:
        batches = decode(direction, header, frames)
    except ProtocolError:
        return True
    assert sum(map(len, batches)) <= MESSAGE_ITEMS
    assert all(isinstance(batch, Batch) and batch for batch in batches)
    return False


@pytest.mark.parametrize(("direction", "batch"), ALL)
@examples(10)
@given(data=st.data())
def test_items_of_each_class_arrive_as_they_were_sent(direction: Direction, batch: type[Batch[Any]], data: Any) -> None:
    items = data.draw(batches_of(batch))
    assert list(map(as_sent, through(direction, items))) == list(map(as_sent, items))


@given(data=st.data())
def test_mixed_items_arrive_in_order_and_in_runs(data: Any) -> None:
    direction = data.draw(directions)
    items = data.draw(mixed_items(direction))
    assert list(map(as_sent, through(direction, items))) == list(map(as_sent, items))
    for header, frames in encode(direction, items):
        runs = [kind for kind, _ in groupby(items, type)]
        assert [type(batch).item for batch in decode(direction, header, frames)] == runs


@pytest.mark.parametrize(("direction", "batch"), ALL)
@examples(3)
@given(data=st.data(), length=st.integers(MESSAGE_ITEMS - 1, 2 * MESSAGE_ITEMS + 2))
def test_many_items_are_split_into_messages(
    direction: Direction, batch: type[Batch[Any]], data: Any, length: int
) -> None:
    odd, place = data.draw(items_of(batch.item)), data.draw(st.integers(0, length - 1))
    items = [default_item(batch.item)] * length
    items[place] = odd
    assert len(list(encode(direction, items))) == -(-length // MESSAGE_ITEMS)
    arrived = through(direction, items)
    assert len(arrived) == length
    assert as_sent(arrived[place]) == as_sent(odd)


@given(directions, st.binary(max_size=400), st.lists(st.binary(max_size=4), max_size=2))
def test_any_bytes_are_refused_or_a_message(direction: Direction, header: bytes, frames: list[bytes]) -> None:
    is_refused_or_valid(direction, header, frames)
    is_refused_or_valid(direction, header[: len(header) // 8 * 8], frames)


@given(data=st.data())
def test_damaged_messages_are_refused_or_a_message(data: Any) -> None:
    direction = data.draw(directions)
    items = data.draw(mixed_items(direction).filter(bool))
    ((header, frames),) = encode(direction, items)
    damaged = bytearray(header)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    is_refused_or_valid(direction, bytes(damaged), frames)


@given(data=st.data())
def test_shortened_messages_are_refused(data: Any) -> None:
    direction = data.draw(directions)
    items = data.draw(mixed_items(direction).filter(bool))
    ((header, frames),) = encode(direction, items)
    assert is_refused_or_valid(direction, header[: data.draw(st.integers(0, len(header) - 1))], frames)


@given(data=st.data())
def test_no_message_is_one_of_another_direction(data: Any) -> None:
    direction, other = data.draw(st.permutations(DIRECTIONS))[:2]
    ((header, frames),) = encode(direction, data.draw(mixed_items(direction).filter(bool)))
    assert is_refused_or_valid(other, header, frames)


@given(data=st.data())
def test_decoding_a_damaged_message_uses_little_memory(data: Any) -> None:
    direction = data.draw(directions)
    items = data.draw(mixed_items(direction).filter(bool))
    ((header, frames),) = encode(direction, items)
    damaged = bytearray(header)
    word = data.draw(st.integers(0, len(damaged) // 8 - 1)) * 8
    damaged[word : word + 8] = data.draw(st.binary(min_size=8, max_size=8))
    tracemalloc.start()
    try:
        is_refused_or_valid(direction, bytes(damaged), frames)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8_000_000


@given(st.text(), st.text(), st.text(), st.binary(max_size=100))
def test_task_failures_arrive_as_they_were_sent(type_name: str, text: str, traceback: str, exception: bytes) -> None:
    arrived = TaskFailure.decode(TaskFailure(type_name, text, traceback, exception).encode())
    assert arrived.exception == exception
    for sent, got in ((type_name, arrived.type_name), (text, arrived.text), (traceback, arrived.traceback)):
        assert got == sent.encode("utf-8", "backslashreplace").decode()


@given(st.binary(max_size=200))
def test_any_bytes_decode_to_a_task_failure_or_are_refused(payload: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert isinstance(TaskFailure.decode(payload), TaskFailure)
