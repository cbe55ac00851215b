from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from scaler.client.calls import repeated_values
from scaler.client.calls.arguments import ArgumentPacker, PackedArguments
from scaler.client.calls.repeated_values import RepeatedValues
from scaler.client.object_reference import ObjectReference, OwnReference
from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId
from scaler.pickling.serialization import OBJECT, OUT_OF_BAND_BYTES, OWN_OBJECT, DefaultSerializer, argument_block

SIZE = OUT_OF_BAND_BYTES + 1


class Scene:
    """The items of a map, and the values sent for them."""

    def __init__(self, items: Any) -> None:
        self.items = items
        self.sent: list[Any] = []
        self.repeated = RepeatedValues(items, self._send, self._pack)
        self._ids = itertools.count()

    def _send(self, value: Any, _name: None, kind: type[ObjectReference]) -> ObjectReference:
        self.sent.append(value)
        return kind("value", ObjectId(next(self._ids).to_bytes(16, "big")), memoryview(value).nbytes)

    def _pack(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> PackedArguments:
        assert not keywords
        assert not labels
        self.packed.append(arguments)
        return PackedArguments(b"")

    def run(self) -> list[list[Any]]:
        self.packed: list[Any] = []
        for item in self.items:
            self.repeated.pack(item, {})
        return [[type(value) for value in arguments] for arguments in self.packed]


def test_a_value_of_several_calls_is_sent_once() -> None:
    value, other = b"1" * SIZE, b"2" * SIZE
    scene = Scene([(value, 1), (2, value), [other], (value, value)])
    assert scene.run() == [[ObjectReference, int], [int, ObjectReference], [bytes], [ObjectReference] * 2]
    assert scene.sent == [value]
    assert scene.repeated.take_bytes() == SIZE
    assert scene.repeated.take_bytes() == 0
    assert not scene.repeated._kept, "no further call has it"


def test_a_call_that_is_packed_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    value = b"1" * SIZE
    scene = Scene([(value,)] * 3)
    pack = scene.repeated._pack
    for _ in range(2):
        monkeypatch.setattr(scene.repeated, "_pack", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scene.repeated.pack((value,), {})
    monkeypatch.setattr(scene.repeated, "_pack", pack)
    scene.run()
    assert scene.sent == [value]


class Bytes(bytes):
    pass


@pytest.mark.parametrize("value", [b"1" * OUT_OF_BAND_BYTES, "1" * SIZE, bytearray(SIZE), Bytes(SIZE), [b"1" * SIZE]])
def test_only_large_bytes_and_arrays_are_sent_once(value: Any) -> None:
    scene = Scene([(value,), (value,)])
    assert scene.run() == [[type(value)]] * 2
    assert scene.sent == []


def test_equal_values_that_are_not_identical_are_sent_separately() -> None:
    scene = Scene([(bytes(SIZE),), (bytes(SIZE),)])
    assert scene.run() == [[bytes]] * 2


def test_bytes_kept_for_further_calls_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_values, "KEPT_BYTES", 2 * SIZE)
    one, two, three, four = (bytes([n]) * SIZE for n in range(4))
    rounds = Scene([(value,) for value in (one, two, three) * 2])
    rounds.run()
    assert rounds.sent == [one, two, three, one], "the first one had to go for the third"
    in_a_row = Scene([(value,) for value in (one, two, three) for _ in range(2)])
    in_a_row.run()
    assert in_a_row.sent == [one, two, three]
    together = Scene([(one, two, three, four)] * 3)
    together.run()
    assert together.sent == [one, two, three, four], "one call needs them all"


def test_a_repeated_value_that_is_too_large_for_an_object_is_packed_with_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_what: Any) -> ObjectReference:
        raise ObjectTooLargeError("the object", SIZE, "host", 1, "")

    scene = Scene([(b"1" * SIZE, 1)] * 2)
    monkeypatch.setattr(scene.repeated, "_send", refuse)
    assert scene.run() == [[bytes, int]] * 2


def test_a_list_that_changes_during_a_map_is_read_as_it_is_then() -> None:
    one, two = b"1" * SIZE, b"2" * SIZE
    items: list[Any] = [(one,), (one,), (two,)]
    scene = Scene(items)
    scene.packed = []
    scene.repeated.pack(items[0], {})
    items[1:] = [(two,), (two,), (one,), (one,)]
    for item in items[1:]:
        scene.repeated.pack(item, {})
    assert [type(arguments[0]) for arguments in scene.packed] == [ObjectReference, bytes, bytes, *[ObjectReference] * 2]
    assert set(scene.sent) == {one}


@pytest.mark.more
def test_each_task_gets_its_own_copy_of_a_repeated_array() -> None:
    numpy = pytest.importorskip("numpy")
    array, objects = numpy.zeros(SIZE), numpy.array([{}] * SIZE)
    scene = Scene([(array, array[:1], objects)] * 2)
    assert scene.run() == [[OwnReference, numpy.ndarray, numpy.ndarray]] * 2
    assert scene.repeated.take_bytes() == array.nbytes
    assert len(scene.sent) == 1


def test_an_own_reference_is_an_argument_that_its_task_may_change() -> None:
    object_ids = [ObjectId(bytes([n]) * 16) for n in range(2)]
    own, shared = OwnReference("a", object_ids[0], SIZE), ObjectReference("b", object_ids[1], SIZE)
    packed = ArgumentPacker(DefaultSerializer(), "tcp://127.0.0.1:1").pack_values((own, shared), {})
    assert packed.block == argument_block(OWN_OBJECT, object_ids[0]) + argument_block(OBJECT, object_ids[1])
    assert packed.object_ids == b"".join(object_ids)
