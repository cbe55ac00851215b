from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from scaler.errors import ProtocolError
from scaler.ids import ObjectId, TaskId
from scaler.wire.codec import codec, stencils
from scaler.wire.codec.schemas import read
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import ObjectInstruction, TaskStatus
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, SCHEDULER_TO_CLIENT
from scaler.wire.messages.worker import RunTask, WorkerHeartbeatEcho


def numbered(number: int) -> bytes:
    return number.to_bytes(16, "big")


def task(number: int, payload: bytes = b"payload") -> Task:
    return Task(TaskId(numbered(number)), ObjectId(numbered(number + 1)), payload, b"")


def run(number: int, worker: int = 1) -> RunTask:
    return RunTask(TaskId(numbered(number)), worker, 1, ObjectId(numbered(number + 1)), b"payload", b"")


def table(direction: Any = CLIENT_TO_SCHEDULER) -> stencils.Stencils:
    return codec._DirectionCodec(direction).stencils


def schema() -> Any:
    return codec._DirectionCodec(CLIENT_TO_SCHEDULER).schema


def taught(items: list[Any], direction: Any = CLIENT_TO_SCHEDULER) -> stencils.Stencils:
    known = table(direction)
    for _ in range(stencils.SEEN_BEFORE_CUT * len(items)):
        assert known.write(items) is None
    return known


def long_way(items: list[Any], direction: Any = CLIENT_TO_SCHEDULER) -> bytes:
    return codec._encode(codec._DirectionCodec(direction), items)[0]


def test_a_stencil_is_cut_when_a_shape_is_repeated() -> None:
    known = taught([task(1)])
    assert known.write([task(77)]) == long_way([task(77)])
    assert known.read(long_way([task(78)])) == [[task(78)]]


def test_another_length_of_objects_is_another_shape() -> None:
    known = taught([task(1)])
    assert known.write([dataclasses.replace(task(1), object_ids=bytes(16))]) is None
    assert known.read(long_way([dataclasses.replace(task(1), object_ids=bytes(16))])) is None


@pytest.mark.parametrize("length", [1, 6, 7, 8, 9, 100, 1000, 5000])
def test_one_value_may_have_any_length(length: int) -> None:
    known = taught([task(1)])
    for written in (task(1, b"x" * length), task(2, bytes(length))):
        assert known.write([written]) == long_way([written])
        assert known.read(long_way([written])) == [[written]]


def test_stencils_learn_from_messages_of_any_length() -> None:
    known = table()
    for length in range(1, stencils.SEEN_BEFORE_CUT + 1):
        assert known.read(long_way([task(length, bytes(length))])) is None
        known.learn([[task(length, bytes(length))]])
    assert known.read(long_way([task(1, bytes(99))])) == [[task(1, bytes(99))]]
    assert not known._by_size


def test_a_length_that_is_written_very_often_gets_its_own_stencil() -> None:
    known = taught([task(1)])
    for number in range(stencils.SEEN_BEFORE_CUT_TWICE):
        assert list(known._by_size) == [len(long_way([task(1)]))]
        known.write([task(number, b"a longer payload")])
    assert list(known._by_size) == [len(long_way([task(1)])), len(long_way([task(1, b"a longer payload")]))]


@pytest.mark.parametrize("has_learned", [False, True])
def test_a_length_that_is_read_very_often_gets_its_own_stencil(has_learned: bool) -> None:
    known, size = taught([task(1)]), len(long_way([task(1, b"a longer payload")]))
    if has_learned:
        known.learn([[task(1, b"a longer payload")]])
    for number in range(stencils.SEEN_BEFORE_CUT_TWICE):
        assert size not in known._by_size
        assert known.read(long_way([task(number, b"a longer payload")])) == [[task(number, b"a longer payload")]]
    known._of_any_size.clear()
    assert known.read(long_way([task(7, b"a longer payload")])) == [[task(7, b"a longer payload")]]
    assert known.read(long_way([task(7, b"another payload")])) is None


@pytest.mark.thorough
def test_the_tables_of_lengths_that_are_read_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stencils, "SHAPES_MOST", 4)
    monkeypatch.setattr(stencils, "SEEN_BEFORE_CUT_TWICE", 8)
    known = taught([task(1)])
    for n_bytes in range(8, 20 * 8, 8):
        for number in range(stencils.SEEN_BEFORE_CUT_TWICE if n_bytes % 16 else 1):
            known.read(long_way([task(number, bytes(n_bytes))]))
    assert len(known._by_shape) <= 4
    assert len(known._stretched) <= 4


def test_a_large_value_is_written_in_one_segment_and_can_be_read() -> None:
    known = taught([task(1)])
    large = task(2, bytes(20_000))
    header = known.write([large])
    assert header is not None
    assert header != long_way([large])
    assert codec._decode(codec._DirectionCodec(CLIENT_TO_SCHEDULER), read(schema(), header), iter(())) == [[large]]
    assert known.read(header) == [[large]]
    assert known.read(long_way([large])) is None  # the library uses two segments


def test_a_value_of_any_length_may_precede_another_item() -> None:
    known = taught([run(1), WorkerHeartbeatEcho(5)], SCHEDULER_TO_AGENT)
    items = [dataclasses.replace(run(2), payload=bytes(50)), WorkerHeartbeatEcho(6)]
    header = known.write(items)
    assert header == long_way(items, SCHEDULER_TO_AGENT)
    assert known.read(header or b"") == [[item] for item in items]


def test_zero_is_another_shape() -> None:
    known = taught([run(1)], SCHEDULER_TO_AGENT)
    assert known.write([run(1, worker=0)]) is None
    assert known.read(long_way([run(1, worker=0)], SCHEDULER_TO_AGENT)) is None


def test_two_items_of_different_kinds_have_their_own_stencil() -> None:
    known = taught([run(1), WorkerHeartbeatEcho(5)], SCHEDULER_TO_AGENT)
    header = known.write([run(2), WorkerHeartbeatEcho(6)])
    assert header == long_way([run(2), WorkerHeartbeatEcho(6)], SCHEDULER_TO_AGENT)
    assert known.read(header or b"") == [[run(2)], [WorkerHeartbeatEcho(6)]]


@pytest.mark.parametrize("count", range(2, stencils.ITEMS_MOST + 1))
def test_a_batch_of_one_kind_has_one_stencil(count: int) -> None:
    known = taught([run(number) for number in range(count)], SCHEDULER_TO_AGENT)
    items = [run(number + 7, worker=number + 3) for number in range(count)]
    header = known.write(items)
    assert header == long_way(items, SCHEDULER_TO_AGENT)
    assert known.read(header or b"") == [items]


def test_a_stencil_may_have_a_batch_among_items_of_other_kinds() -> None:
    known = taught([WorkerHeartbeatEcho(5), run(1), run(2), WorkerHeartbeatEcho(6)], SCHEDULER_TO_AGENT)
    items = [WorkerHeartbeatEcho(7), run(3), run(4), WorkerHeartbeatEcho(8)]
    header = known.write(items)
    assert header == long_way(items, SCHEDULER_TO_AGENT)
    assert known.read(header or b"") == [items[:1], items[1:3], items[3:]]


def test_the_stencil_that_fitted_last_is_tried_first() -> None:
    """The next message most often has the same shape."""
    known = taught([run(1)], SCHEDULER_TO_AGENT)
    known.prepare([run(1, worker=0)])
    first, second = known._of_any_size
    written = dataclasses.replace(run(2, worker=0), payload=b"of another length")
    for _ in range(2):
        assert known.read(long_way([written], SCHEDULER_TO_AGENT)) == [[written]]
        assert known._of_any_size == [second, first]


def test_stencils_learn_from_batches_that_are_read() -> None:
    known = table(SCHEDULER_TO_AGENT)
    for number in range(2 * stencils.SEEN_BEFORE_CUT):
        assert known.read(long_way([run(number), run(number + 1)], SCHEDULER_TO_AGENT)) is None
        known.learn([[run(number), run(number + 1)]])
    assert known.read(long_way([run(8), run(9)], SCHEDULER_TO_AGENT)) == [[run(8), run(9)]]


@pytest.mark.parametrize(
    "other",
    [
        run(2, worker=0),
        dataclasses.replace(run(2), payload=b"longer payload"),
        dataclasses.replace(run(2), payload=b""),
    ],
)
def test_a_batch_of_different_shapes_has_no_stencil(other: RunTask) -> None:
    """The column of numbers of the first shape would hold a zero; the columns of bytes would have another layout."""
    known = table(SCHEDULER_TO_AGENT)
    for _ in range(3 * stencils.SEEN_BEFORE_CUT):
        assert known.write([run(1), other]) is None
    assert not known._by_shape


def test_a_message_of_too_many_items_has_no_stencil() -> None:
    known = table(SCHEDULER_TO_AGENT)
    items = [run(number) for number in range(stencils.ITEMS_MOST + 1)]
    for _ in range(len(items) * stencils.SEEN_BEFORE_CUT):
        known.learn([items])
    assert not known._by_shape


@pytest.mark.parametrize("item", [ObjectInstruction(0, ObjectId(numbered(1)), "a name", ())])
def test_items_with_texts_or_frames_have_no_stencil(item: Any) -> None:
    known = table()
    for _ in range(2 * stencils.SEEN_BEFORE_CUT):
        assert known.write([item]) is None


def test_a_large_message_has_no_stencil() -> None:
    known = table()
    for number in range(2 * stencils.SEEN_BEFORE_CUT):
        assert known.write([dataclasses.replace(task(number), object_ids=bytes(16 * 128))]) is None


def test_bytes_of_another_type_are_not_written_by_a_stencil() -> None:
    known = taught([task(1)])
    assert known.write([task(1, memoryview(b"payload"))]) is None  # type: ignore[arg-type]
    assert long_way([task(1, memoryview(b"payload"))]) == long_way([task(1)])  # type: ignore[arg-type]


def test_a_number_that_does_not_fit_is_refused_without_a_stencil() -> None:
    known = taught([run(1)], SCHEDULER_TO_AGENT)
    assert known.write([run(1, worker=2**16)]) is None
    with pytest.raises(Exception, match="out of range"):
        long_way([run(1, worker=2**16)], SCHEDULER_TO_AGENT)


def test_a_number_beyond_its_enumeration_is_not_read_by_a_stencil() -> None:
    status = TaskStatus.FAILED
    known = taught([TaskResult(TaskId(numbered(1)), status, b"", 0)], SCHEDULER_TO_CLIENT)
    header = long_way([TaskResult(TaskId(numbered(2)), len(TaskStatus), b"", 0)], SCHEDULER_TO_CLIENT)
    assert known.read(header) is None
    with pytest.raises(ProtocolError, match="is not a TaskStatus"):
        codec.decode(SCHEDULER_TO_CLIENT, header, [])


def test_messages_of_peers_cannot_grow_the_tables_without_limit() -> None:
    known = table()
    for length in range(3):
        for number in range(stencils.SHAPES_MOST):
            known.learn([[dataclasses.replace(task(number, bytes(number + 1)), object_ids=bytes(length * 16))]])
            known.learn([[dataclasses.replace(task(number), options=bytes(length * stencils.SHAPES_MOST + number))]])
    assert len(known._by_shape) <= stencils.SHAPES_MOST
    assert len(known._by_stretch) <= stencils.SHAPES_MOST
    assert len(known._of_any_size) <= stencils.CANDIDATES_MOST


def test_the_number_of_stencils_compared_with_a_message_is_bounded() -> None:
    """Several lengths are padded to one size: as many as the limit."""
    known = table(SCHEDULER_TO_AGENT)
    for payload_bytes in range(1, 9):
        for options_bytes in range(1, 4):
            item = RunTask(
                TaskId(numbered(1)),
                1,
                1,
                ObjectId(numbered(2)),
                bytes(payload_bytes),
                b"",
                options=bytes(options_bytes),
            )
            for _ in range(stencils.SEEN_BEFORE_CUT_TWICE):
                known.learn([[item]])
    assert max(map(len, known._by_size.values())) == stencils.CANDIDATES_MOST
    assert len(known._of_any_size) == 3


def test_no_stencil_is_learned_from_an_empty_message() -> None:
    known = table()
    known.learn([])
    assert not known._by_shape


def test_numbers_differ_from_message_to_message() -> None:
    known = taught([task(1)])
    header = known.write([task(2)], 5, 2**63)
    assert header is not None
    assert codec.numbers(CLIENT_TO_SCHEDULER, header) == (5, 2**63)
    assert known.read(header) == [[task(2)]]
    assert known.read(long_way([task(3)])) == [[task(3)]]
