"""One stencil: what it reads from a message, and when none can be cut."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.ids import ObjectId, TaskId
from scaler.wire.codec import codec
from scaler.wire.codec.item_kinds import ItemKind
from scaler.wire.codec.stencil import Cutter, Hole, StretchStencil
from scaler.wire.messages.client import Task
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER

CODEC = codec._DirectionCodec(CLIENT_TO_SCHEDULER)
NUMBERS = [Hole(24, 32, "Q"), Hole(32, 40, "Q")]


def task(payload: bytes) -> Task:
    return Task(TaskId(b"t" * 16), ObjectId(b"f" * 16), payload, b"")


def long_way(items: Any) -> bytes:
    return codec._encode(CODEC, items)[0]


@pytest.fixture
def kind() -> ItemKind:
    return next(codec._item_kind(batch) for batch in CLIENT_TO_SCHEDULER.batches if batch.item is Task)


@pytest.fixture
def stencil(kind: ItemKind) -> StretchStencil:
    stencil = Cutter(long_way, NUMBERS).cut_stretch([kind], [task(b"x")], 2)
    assert stencil is not None
    return stencil


def test_a_stretched_message_has_its_numbers(kind: ItemKind, stencil: StretchStencil) -> None:
    header = stencil.write(kind.values(task(b"arguments")), 7, 8)
    assert codec.numbers(CLIENT_TO_SCHEDULER, header) == (7, 8)
    assert stencil.read(header) == [[task(b"arguments")]]


def test_each_word_that_depends_on_the_length_is_checked(kind: ItemKind, stencil: StretchStencil) -> None:
    header = stencil.write(kind.values(task(b"arguments")), 0, 0)
    for word in stencil._words:
        damaged = bytearray(header)
        damaged[word.start + 1] ^= 0x40
        assert stencil.read(bytes(damaged)) is None


def test_a_message_of_another_length_does_not_fit_the_stencil(kind: ItemKind, stencil: StretchStencil) -> None:
    header = stencil.write(kind.values(task(b"arguments")), 0, 0)
    for size in range(0, len(header), 8):
        assert stencil.read(header[:size]) is None
    assert stencil.read(header + bytes(8)) is None


def test_no_stencil_is_cut_if_the_message_is_written_in_another_way(kind: ItemKind) -> None:
    def scrambled(items: Any) -> bytes:
        header = long_way(items)
        return header[:-8] + len(header).to_bytes(8, "big")

    assert Cutter(scrambled, NUMBERS).cut_stretch([kind], [task(b"x")], 2) is None
    assert Cutter(lambda items: long_way(items)[::-1], NUMBERS).cut_stretch([kind], [task(b"x")], 2) is None
