from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest

from scaler import shared_memory
from scaler.client.calls.arguments import ArgumentPacker, freeze_for, frozen, shared
from scaler.client.calls.inputs import Input, ResultArgument, other_client
from scaler.client.object_reference import ObjectReference
from scaler.endpoint import Endpoint
from scaler.errors import MissingObjects, ObjectTooLargeError, SerializeObjectError
from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import (
    BLOCK_BYTES,
    CARRIED_BYTES,
    FRAME_BYTES,
    INLINE_BYTES,
    OUT_OF_BAND_BYTES,
    VALUE,
    WORTH_AN_OBJECT_BYTES,
    DefaultSerializer,
    Frames,
    Serializer,
    from_frames,
    put_results,
    read_arguments,
    size_of,
)
from scaler.shared_memory import SHARE_LEAST_BYTES, SHARING_VARIABLE, SLAB_BYTES, SharedFrames
from scaler.wire.messages.common import InstructionKind

ADDRESS = "tcp://127.0.0.1:1"
STORED = ObjectId(b"s" * 16)


@pytest.fixture
def packer() -> ArgumentPacker:
    return ArgumentPacker(DefaultSerializer(), ADDRESS)


def reference(object_id: ObjectId = STORED) -> ObjectReference:
    return ObjectReference("table", object_id, 5, {STORED})


def read(block: bytes, frames: Frames = ()) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments in a block, with the id in place of each object."""
    value = partial(from_frames, DefaultSerializer())
    return read_arguments(block, lambda *taken: value(taken), lambda object_id, _is_own: object_id, frames)


class Own(Serializer):
    def serialize(self, obj: Any) -> bytes:
        return b"!" + pickle.dumps(obj)

    def deserialize(self, payload: bytes) -> Any:
        return pickle.loads(payload[1:])


def test_arguments_arrive_as_they_were_given(packer: ArgumentPacker) -> None:
    for positional, keywords in (
        ([], {}),
        ([1, None, "zwei", [3]], {}),
        ([], {"größe": {4: 5}}),
        ([1], {"a": 2, "b": 3}),
    ):
        packed = packer.pack(positional, keywords)
        assert read(packed.block) == (positional, keywords)
        assert (packed.object_ids, list(packed.objects), list(packed.kept)) == (b"", [], [])


LARGER = [b"x" * (INLINE_BYTES + 1), "x" * (INLINE_BYTES + 1), list(range(10_000)), bytearray(OUT_OF_BAND_BYTES)]


@pytest.mark.parametrize("value", LARGER)
def test_a_value_too_large_for_the_block_travels_as_frames_of_the_call(packer: ArgumentPacker, value: Any) -> None:
    packed = packer.pack([value, 1], {"key": value})
    assert (packed.objects, packed.object_ids) == ([], b"")
    assert len(packed.block) < 200
    assert read(packed.block, packed.frames) == ([value, 1], {"key": value})


@pytest.mark.parametrize("value", LARGER)
def test_a_value_that_several_calls_share_is_an_object_of_its_own(packer: ArgumentPacker, value: Any) -> None:
    packed = packer.pack_shared(value)
    (made,) = packed.objects
    assert (made.kind, packed.object_ids, packed.frames) == (InstructionKind.CREATE_FOR_TASK, made.object_id, ())
    assert read(packed.block) == ([made.object_id], {})
    assert from_frames(DefaultSerializer(), made.frames) == value


def test_arguments_beyond_the_limit_of_a_call_become_objects(packer: ArgumentPacker) -> None:
    half = CARRIED_BYTES // 2
    packed = packer.pack([bytes(half), bytes(half), bytes(20_000), bytearray(CARRIED_BYTES + 1)], {})
    huge, half_again = packed.objects
    assert packed.object_ids == half_again.object_id + huge.object_id
    assert size_of(packed.frames) <= CARRIED_BYTES
    assert read(packed.block, packed.frames)[0] == [bytes(half), half_again.object_id, bytes(20_000), huge.object_id]


def test_a_call_carries_no_more_than_the_scheduler_takes(packer: ArgumentPacker) -> None:
    packer.limit.n_bytes = 50_000
    packed = packer.pack([bytes(20_000)] * 3, {})
    assert (len(packed.frames), len(packed.objects)) == (2, 1)


def test_an_argument_whose_frames_were_dropped_is_an_object_too_large_error(packer: ArgumentPacker) -> None:
    packed = packer.pack([1, bytes(20_000)], {})
    with pytest.raises(ObjectTooLargeError, match=r"an argument is too large: it has 20,0\d\d bytes"):
        read(packed.block, ())


def test_many_small_values_are_moved_out_of_the_block_until_it_is_small_enough(packer: ArgumentPacker) -> None:
    values = [bytes([n]) * (FRAME_BYTES - 200) for n in range(10)]
    packed = packer.pack(values, {})
    assert 0 < len(packed.frames) < len(values)
    assert len(packed.block) <= BLOCK_BYTES + 100 * len(values)
    assert read(packed.block, packed.frames) == (values, {})


def test_values_too_small_for_an_object_stay_in_the_block(packer: ArgumentPacker) -> None:
    values = [b"x" * (WORTH_AN_OBJECT_BYTES // 2) for _ in range(300)]
    packed = packer.pack(values, {})
    assert packed.objects == []
    assert len(packed.block) > BLOCK_BYTES
    assert read(packed.block)[0] == values


def test_an_argument_is_copied_when_it_is_packed(packer: ArgumentPacker) -> None:
    small, large = [1], bytearray(OUT_OF_BAND_BYTES)
    packed = packer.pack([small, large], {})
    small.append(2)
    large[0] = 9
    assert read(packed.block, packed.frames)[0] == [[1], bytearray(OUT_OF_BAND_BYTES)]


def test_a_reference_travels_as_its_id_and_is_kept(packer: ArgumentPacker) -> None:
    table = reference()
    packed = packer.pack([table], {"again": table})
    assert read(packed.block) == ([STORED], {"again": STORED})
    assert packed.object_ids == STORED * 2
    assert packed.kept == [table, table]
    assert packed.objects == []


def test_a_reference_as_is_is_a_value_whose_object_the_task_uses(packer: ArgumentPacker) -> None:
    table = reference()
    for arguments, expected in (([table.as_is()], [table]), ([1, [table.as_is(), {"a": table.as_is()}]], None)):
        packed = packer.pack(arguments, {})
        values, _ = read(packed.block)
        assert values == (expected or [1, [table, {"a": table}]])
        n_mentions = repr(arguments).count("as_is")
        assert packed.object_ids == STORED * n_mentions
        assert (packed.kept, packed.objects) == ([table] * n_mentions, [])
    shared_value = packer.pack_shared((table.as_is(), bytearray(OUT_OF_BAND_BYTES)))
    (made,) = shared_value.objects
    assert read(shared_value.block) == ([made.object_id], {})
    assert shared_value.object_ids == made.object_id + STORED
    with pytest.raises(MissingObjects):
        packer.pack([[reference(ObjectId(b"?" * 16)).as_is()]], {})


def test_only_objects_made_for_the_task_are_owned_by_it(packer: ArgumentPacker) -> None:
    packed = packer.pack([reference(), bytearray(CARRIED_BYTES)], {})
    owned, _ = read_arguments(packed.block, DefaultSerializer().deserialize, lambda _object_id, is_own: is_own)
    assert owned == [False, True]


def test_a_reference_to_a_forgotten_object_is_refused(packer: ArgumentPacker) -> None:
    with pytest.raises(MissingObjects):
        packer.pack([reference(ObjectId(b"?" * 16))], {})


def test_an_argument_that_cannot_be_serialised_is_refused(packer: ArgumentPacker) -> None:
    with pytest.raises(SerializeObjectError):
        packer.pack([(n for n in ())], {})


def test_a_keyword_argument_without_a_name_is_refused(packer: ArgumentPacker) -> None:
    with pytest.raises(TypeError, match="a keyword argument needs a name"):
        packer.pack([], {"": 1})


def test_a_custom_serializer_packs_plain_values_as_well() -> None:
    packer = ArgumentPacker(Own(), ADDRESS)
    assert packer.plain_block([1]) is None
    positional, _ = read_arguments(packer.pack([1], {}).block, Own().deserialize, lambda object_id, _is_own: object_id)
    assert positional == [1]


def test_a_packed_value_can_become_an_object(packer: ArgumentPacker) -> None:
    packed = packer.as_object(packer.pack(["value"], {}))
    (instruction,) = packed.objects
    assert read(packed.block)[0] == [instruction.object_id]
    assert from_frames(DefaultSerializer(), instruction.frames) == "value"


def test_frames_that_may_change_are_copied() -> None:
    changing = bytearray(b"before")
    frames = frozen([b"constant", changing, memoryview(changing)])
    changing[:] = b"after!"
    assert frames == [b"constant", b"before", b"before"]


def test_frames_that_cannot_change_are_not_copied() -> None:
    constant = b"constant"
    view = memoryview(constant)
    frames = frozen([constant, view])
    assert frames[0] is constant
    assert frames[1] is view


def test_a_shared_large_value_is_copied_at_once() -> None:
    changing = bytearray(SHARE_LEAST_BYTES)
    frames = shared([b"head", changing])
    changing[0] = 1
    assert type(frames) is SharedFrames
    assert [bytes(frame) for frame in frames] == [b"head", bytes(SHARE_LEAST_BYTES)]


def test_a_small_value_is_not_shared() -> None:
    assert type(shared([bytes(SHARE_LEAST_BYTES - 1)])) is list


def test_without_room_for_another_block_a_large_value_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "OPEN_MEMORIES_MOST", 4)
    blocks = [SharedFrames([bytes(SLAB_BYTES // 8 + 1)]) for _ in range(4)]
    assert shared([bytes(SHARE_LEAST_BYTES)]) == [bytes(SHARE_LEAST_BYTES)]
    assert len(blocks) == 4


@pytest.mark.parametrize(
    ("address", "is_near"),
    [
        ("tcp://127.0.0.1:5000", True),
        ("tcp://localhost:5000", True),
        ("tcp://[::1]:5000", True),
        ("ipc:///tmp/scaler", True),
        ("tcp://10.1.2.3:5000", False),
        ("tcp://localhost.example.org:5000", False),
    ],
)
def test_memory_is_shared_with_a_scheduler_on_this_machine(address: str, is_near: bool) -> None:
    assert freeze_for(Endpoint.parse(address)) is (shared if is_near else frozen)


def test_memory_is_not_shared_when_that_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARING_VARIABLE, "0")
    assert freeze_for(Endpoint.parse("tcp://127.0.0.1:5000")) is frozen


LINK = object()


class Future(ResultArgument):
    """The future of a task of the client with the link `LINK`; `value`: its result, if only this process has it."""

    name = "f"

    def __init__(self, number: int, value: Any = None) -> None:
        self.input, self.value = Input(TaskId(bytes([number]) * 16), f"task {number}", ()), value

    def as_argument(self, link: object) -> tuple[Input | None, Any]:
        if link is not LINK:
            raise other_client(self.name)
        return (self.input, None) if self.value is None else (None, self.value)


@pytest.fixture
def linked() -> ArgumentPacker:
    return ArgumentPacker(DefaultSerializer(), ADDRESS, link=LINK)


def test_futures_become_inputs_each_of_which_is_named_once(linked: ArgumentPacker) -> None:
    first, second, read_before = Future(1), Future(2), Future(3, "here")
    packed = linked.pack([second, 5, first, read_before], {"again": second})
    assert packed.inputs == second.input.task_id + first.input.task_id
    results = {0: "of second", 1: "of first"}
    block, _ = put_results(packed.block, lambda index: (VALUE, DefaultSerializer().serialize(results[index])))
    assert read(block) == (["of second", 5, "of first", "here"], {"again": "of second"})
    labels = [("argument 1", second.input), ("argument 3", first.input), ("the argument 'again'", second.input)]
    assert [each for each in packed.kept if isinstance(each, tuple)] == labels
    assert [each for each in packed.kept if isinstance(each, Future)] == [second, first, second]


def test_futures_are_kept_beside_references_and_objects(linked: ArgumentPacker) -> None:
    table, future = reference(), Future(1)
    packed = linked.pack([table, future, b"x" * CARRIED_BYTES, b"y" * CARRIED_BYTES], {})
    assert set(packed.kept) == {table, future, ("argument 2", future.input)}
    assert packed.object_ids == STORED + b"".join(made.object_id for made in packed.objects)


def test_a_future_of_another_client_is_refused(packer: ArgumentPacker) -> None:
    with pytest.raises(TypeError, match="the future of task f belongs to another client"):
        packer.pack([Future(1)], {})


def test_a_future_that_was_read_here_is_an_ordinary_value(linked: ArgumentPacker) -> None:
    packed = linked.pack([Future(1, "here")], {})
    assert (read(packed.block), packed.inputs, packed.kept) == ((["here"], {}), b"", [])
