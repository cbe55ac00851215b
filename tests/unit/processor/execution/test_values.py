"""LoadedValues: which values are read once and which for each task, with their serializer."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scaler.client.calls.arguments import ArgumentPacker
from scaler.client.calls.functions import ClientFunctions
from scaler.endpoint import Endpoint
from scaler.errors import DeserializeObjectError
from scaler.ids import ObjectId, content_id
from scaler.pickling.serialization import INLINE_BYTES, DefaultSerializer, Serializer, function_to_frames, to_frames
from scaler.pickling.shipped_modules import Shipped
from scaler.processor.execution.values import LoadedValues
from scaler.shared_memory import SharedBlock

ONE, TWO = ObjectId(b"1" * 16), ObjectId(b"2" * 16)
DEFAULT = DefaultSerializer()


class Buffer:
    """A value that is pickled with its data out of band, as an array is."""

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return Buffer, (pickle.PickleBuffer(self.data),)


class Backwards(Serializer):
    """A serializer that writes texts backwards, and nothing else."""

    def serialize(self, obj: Any) -> bytes:
        return bytes(obj[::-1].encode())

    def deserialize(self, payload: bytes) -> Any:
        return payload.decode()[::-1]


class ByCode(Serializer):
    """A serializer that can write functions."""

    def serialize(self, obj: Any) -> bytes:
        return cloudpickle.dumps(obj)

    def deserialize(self, payload: bytes) -> Any:
        return pickle.loads(payload)


def values(**objects: Any) -> LoadedValues:
    known = LoadedValues()
    for object_id, value in zip((ONE, TWO), objects.values(), strict=False):
        known.store(object_id, [bytes(frame) for frame in to_frames(DEFAULT, value)])
    return known


def store_function(known: LoadedValues, serializer: Serializer, function: Any) -> ObjectId:
    frames = [bytes(frame) for frame in function_to_frames(serializer, function)]
    known.store(content_id(frames), frames)
    return content_id(frames)


def test_a_large_value_is_read_once_and_a_small_one_for_each_task() -> None:
    known = values(small=[1], large=[b"x" * (INLINE_BYTES + 1)])
    assert known.stored(DEFAULT, ONE) is not known.stored(DEFAULT, ONE)
    assert known.stored(DEFAULT, TWO) is known.stored(DEFAULT, TWO)


def test_a_forgotten_value_is_read_again_when_it_is_stored_again() -> None:
    known = values(small=1, large=[b"x" * (INLINE_BYTES + 1)])
    before = known.stored(DEFAULT, TWO)
    known.forget([ONE, TWO])
    for object_id in (ONE, TWO):
        with pytest.raises(KeyError):
            known.stored(DEFAULT, object_id)
    known.store(TWO, [bytes(frame) for frame in to_frames(DEFAULT, "another")])
    assert (known.stored(DEFAULT, TWO), before) == ("another", [b"x" * (INLINE_BYTES + 1)])


def test_a_function_is_read_once() -> None:
    known = LoadedValues()
    function_id = store_function(known, DEFAULT, max)
    assert known.read_function(function_id).call is max
    assert known.functions[function_id].read(b"\x80\x05K\x07.") == 7


def in_main() -> Any:
    """Return a function of a script, which is pickled by value."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def f(n): return f(n - 1) if n else 0", space)
    return space["f"]


def submitted(function: Any, serializer: Serializer = DEFAULT, shipped: Shipped | None = None) -> ObjectId:
    """Return the id under which a task sends this function when it submits it."""
    packer = ArgumentPacker(serializer, "tcp://127.0.0.1:1")
    return (
        ClientFunctions(serializer, Endpoint.parse("tcp://127.0.0.1:1"), packer, shipped)
        .get(function)
        .instruction.object_id
    )


def test_a_function_that_a_task_submits_is_sent_with_the_bytes_that_arrived(tmp_path: Path) -> None:
    frames = [b"", cloudpickle.dumps(in_main(), protocol=4)]  # unlike the pickle of this process
    known = LoadedValues()
    known.store(content_id(frames), frames)
    function = known.read_function(content_id(frames)).call
    assert submitted(function) == content_id(frames) != submitted(in_main())
    assert submitted(function, ByCode()) != content_id(frames)
    (tmp_path / "helper.py").touch()
    assert submitted(function, shipped=Shipped([tmp_path / "helper.py"])) != content_id(frames)
    function.__globals__["f"] = abs
    assert submitted(function) != content_id(frames)


def test_the_bytes_of_a_large_function_are_not_kept() -> None:
    frames = [b"", cloudpickle.dumps(in_main(), protocol=4) + b"." * INLINE_BYTES]
    known = LoadedValues()
    known.store(content_id(frames), frames)
    assert submitted(known.read_function(content_id(frames)).call) != content_id(frames)


def test_a_function_determines_the_serializer_of_its_arguments() -> None:
    known = LoadedValues()
    own = bytes(to_frames(DEFAULT, Backwards())[0])
    function_id = content_id([own, b"txet a"])
    known.store(function_id, [own, b"txet a"])
    serializer, function, read = known.read_function(function_id)
    assert (type(serializer).__name__, function, read(b"cba")) == ("Backwards", "a text", "abc")


def test_the_error_of_an_unreadable_argument_names_it() -> None:
    known = LoadedValues()
    function_id = store_function(known, DEFAULT, max)
    with pytest.raises(DeserializeObjectError, match="an argument cannot be read here: "):
        known.read_function(function_id).read(b"nonsense")


def test_a_function_that_does_not_match_its_id_is_not_read() -> None:
    known = LoadedValues()
    function_id = store_function(LoadedValues(), DEFAULT, pow)
    known.store(function_id, [bytes(frame) for frame in function_to_frames(DEFAULT, max)])
    with pytest.raises(DeserializeObjectError, match="its content does not match its id"):
        known.read_function(function_id)


def test_an_own_object_is_read_for_each_task_and_can_be_changed() -> None:
    known = LoadedValues()
    block = SharedBlock.of(to_frames(DEFAULT, Buffer(bytearray(100_000))))
    known.store(ONE, block.map(remember=True))
    for _ in range(2):
        value = known.stored(DEFAULT, ONE, is_own=True)
        assert value.data[:2] == b"\0\0"
        value.data[:2] = b"xy"
    with pytest.raises(TypeError):
        known.stored(DEFAULT, ONE).data[0] = 1
