"""The large results of a node, which are kept until the scheduler deletes them."""

from __future__ import annotations

import pytest

from scaler.agent.values import NodeValues
from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import Frames
from scaler.shared_memory import _LOCATION, SHARE_LEAST_BYTES, SharedBlock, frames_at
from scaler.store.host_share import HostShare
from scaler.store.store import ValueStore
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

ONE = ObjectId(b"1" * 16)
SMALL, LARGE = b"s" * 100_000, b"l" * SHARE_LEAST_BYTES


def new_values(store: ValueStore | None = None) -> NodeValues:
    return NodeValues(store or ValueStore(HostShare(None), 1 << 30))


def arrived(*frames: bytes) -> list[memoryview]:
    """Return frames as they arrive from a processor."""
    return SharedBlock.of(frames).map(remember=True)


def take(values: NodeValues, object_id: ObjectId, frames: Frames, account: int = 1) -> bytes:
    """Have a result kept. Return its location, or no bytes if the result is sent instead."""
    taken = values.take(RunResult(TaskId(object_id), 0, 1, TaskStatus.SUCCESS, b"", 0, frames), account)
    assert bool(taken.frames) is not bool(taken.location)
    return taken.location


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_a_value_can_be_opened_at_its_location(content: bytes) -> None:
    store = ValueStore(HostShare(None), 1 << 30)
    values = new_values(store)
    location = take(values, ONE, arrived(b"head", content))
    assert [result.location for result in values.results()] == [location]
    for frames in (frames_at(location), store.frames(ONE)):
        assert [bytes(frame) for frame in frames] == [b"head", content]
    assert values.ids() == [ONE]


def test_many_small_values_share_one_descriptor() -> None:
    values = new_values()
    taken = [take(values, ObjectId(bytes([number]) * 16), arrived(SMALL)) for number in range(20)]
    descriptors = {_LOCATION.unpack_from(location)[2] for location in taken}
    assert len(descriptors) == 1


def test_a_result_does_not_replace_a_copy_or_a_value_of_another_account() -> None:
    store = ValueStore(HostShare(None), 1 << 30)
    values = new_values(store)
    store.take(ONE, [b"a copy"])
    assert take(values, ONE, arrived(LARGE)) == b""
    assert store.frames(ONE) == [b"a copy"]
    store.drop(ONE)
    location = take(values, ONE, arrived(LARGE))
    assert take(values, ONE, arrived(SMALL), account=2) == b""
    assert values.is_at(ONE, location)
    assert values.drop(ONE, location)
    assert take(values, ONE, arrived(SMALL), account=2)


def test_a_value_is_dropped_only_by_its_current_location() -> None:
    store = ValueStore(HostShare(None), 1 << 30)
    values = new_values(store)
    old = take(values, ONE, arrived(SMALL))
    new = take(values, ONE, arrived(LARGE))
    assert not values.drop(ONE, old)
    assert [result.location for result in values.results()] == [new]
    assert values.drop(ONE, new)
    assert (values.ids(), values.results(), ONE in values) == ([], [], False)
    while store.make_room():  # in slices, which are short on a busy machine
        pass
    with pytest.raises(OSError, match=r"gone|No such file"):
        frames_at(new)


def test_a_value_that_did_not_arrive_in_a_block_is_not_kept() -> None:
    values = new_values()
    assert take(values, ONE, [LARGE]) == b""
    assert values.ids() == []


def test_no_value_is_kept_if_sharing_of_memory_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_SHARED_MEMORY", "0")
    assert take(new_values(), ONE, arrived(LARGE)) == b""


def test_large_values_leave_descriptors_for_the_rest_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    values = new_values()
    monkeypatch.setattr("scaler.agent.values._memories_most", lambda: 2)
    taken = [take(values, ObjectId(bytes([number]) * 16), arrived(LARGE)) for number in range(3)]
    assert [bool(location) for location in taken] == [True, True, False]


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_a_value_larger_than_the_memory_of_the_host_is_refused(content: bytes) -> None:
    values = new_values(ValueStore(HostShare(None), 1000))
    with pytest.raises(ObjectTooLargeError, match=r"its worker's host takes at most 1,000 bytes.*object_memory_bytes"):
        take(values, ONE, arrived(content))
    assert values.ids() == []
