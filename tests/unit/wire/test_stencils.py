from __future__ import annotations

from typing import Any

import pytest

from scaler.errors import ProtocolError
from scaler.ids import ObjectId, TaskId
from scaler.wire import codec, stencils
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import ObjectInstruction, TaskStatus
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, SCHEDULER_TO_CLIENT
from scaler.wire.messages.worker import ResultsReceived, RunTask


def numbered(number: int) -> bytes:
    return number.to_bytes(16, "big")


def task(number: int, payload: bytes = b"payload") -> Task:
    return Task(TaskId(numbered(number)), ObjectId(numbered(number + 1)), payload, b"")


def run(number: int, worker: int = 1) -> RunTask:
    return RunTask(TaskId(numbered(number)), worker, 1, ObjectId(numbered(number + 1)), b"payload", b"")


def table(direction: Any = CLIENT_TO_SCHEDULER) -> stencils.Stencils:
    return codec._DirectionCodec(direction).stencils


def taught(items: list[Any], direction: Any = CLIENT_TO_SCHEDULER) -> stencils.Stencils:
    known = table(direction)
    for _ in range(stencils.SEEN_BEFORE_CUT):
        assert known.write(items) is None
    return known


def long_way(items: list[Any], direction: Any = CLIENT_TO_SCHEDULER) -> bytes:
    return codec._encode(codec._DirectionCodec(direction), items)[0]


def test_a_stencil_is_cut_when_a_shape_comes_again() -> None:
    known = taught([task(1)])
    assert known.write([task(77)]) == long_way([task(77)])
    assert known.read(long_way([task(78)])) == [[task(78)]]


def test_another_length_is_another_shape() -> None:
    known = taught([task(1)])
    assert known.write([task(1, b"a longer payload")]) is None
    assert known.read(long_way([task(1, b"payloa")])) is None  # padded to the same size of the message


def test_zero_is_another_shape() -> None:
    known = taught([run(1)], SCHEDULER_TO_AGENT)
    assert known.write([run(1, worker=0)]) is None
    assert known.read(long_way([run(1, worker=0)], SCHEDULER_TO_AGENT)) is None


def test_two_items_of_different_kinds_have_a_stencil_of_their_own() -> None:
    known = taught([run(1), ResultsReceived(5)], SCHEDULER_TO_AGENT)
    header = known.write([run(2), ResultsReceived(6)])
    assert header == long_way([run(2), ResultsReceived(6)], SCHEDULER_TO_AGENT)
    assert known.read(header or b"") == [[run(2)], [ResultsReceived(6)]]


def test_two_items_of_one_kind_have_none() -> None:
    known = table()
    for _ in range(2 * stencils.SEEN_BEFORE_CUT):
        assert known.write([task(1), task(2)]) is None


@pytest.mark.parametrize("item", [ObjectInstruction(0, ObjectId(numbered(1)), "a name", ())])
def test_texts_and_frames_have_none(item: Any) -> None:
    known = table()
    for _ in range(2 * stencils.SEEN_BEFORE_CUT):
        assert known.write([item]) is None


def test_a_large_message_has_none() -> None:
    known = table()
    for number in range(2 * stencils.SEEN_BEFORE_CUT):
        assert known.write([task(number, bytes(stencils.MESSAGE_BYTES_MOST))]) is None


def test_bytes_of_another_type_go_the_long_way() -> None:
    known = taught([task(1)])
    assert known.write([task(1, memoryview(b"payload"))]) is None  # type: ignore[arg-type]
    assert long_way([task(1, memoryview(b"payload"))]) == long_way([task(1)])  # type: ignore[arg-type]


def test_a_number_that_does_not_fit_goes_the_long_way_which_refuses_it() -> None:
    known = taught([run(1)], SCHEDULER_TO_AGENT)
    assert known.write([run(1, worker=2**16)]) is None
    with pytest.raises(Exception, match="out of range"):
        long_way([run(1, worker=2**16)], SCHEDULER_TO_AGENT)


def test_a_number_beyond_its_enumeration_is_not_read() -> None:
    status = TaskStatus.FAILED
    known = taught([TaskResult(TaskId(numbered(1)), status, b"", 0)], SCHEDULER_TO_CLIENT)
    header = long_way([TaskResult(TaskId(numbered(2)), len(TaskStatus), b"", 0)], SCHEDULER_TO_CLIENT)
    assert known.read(header) is None
    with pytest.raises(ProtocolError, match="is no TaskStatus"):
        codec.decode(SCHEDULER_TO_CLIENT, header, [])


def test_what_peers_send_makes_no_table_grow_without_end() -> None:
    known = table()
    for length in range(3):
        for number in range(stencils.SHAPES_MOST):
            known.learn([[task(number, bytes(length * stencils.SHAPES_MOST + number + 1))]])
    assert len(known._by_shape) <= stencils.SHAPES_MOST


def test_few_stencils_are_compared_with_one_message() -> None:
    """Lengths that are padded to one size, and zeros here or there: as many as the limit."""
    known = table(SCHEDULER_TO_AGENT)
    for payload_bytes in range(1, 9):
        for options_bytes in range(1, 9):
            item = RunTask(
                TaskId(numbered(1)),
                1,
                1,
                ObjectId(numbered(2)),
                bytes(payload_bytes),
                b"",
                options=bytes(options_bytes),
            )
            for _ in range(stencils.SEEN_BEFORE_CUT):
                known.learn([[item]])
    assert max(map(len, known._by_size.values())) == stencils.CANDIDATES_MOST


def test_an_empty_message_teaches_nothing() -> None:
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
