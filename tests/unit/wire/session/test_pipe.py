from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scaler.client.outcome import read_value, unread_result
from scaler.errors import DeserializeObjectError, ObjectTooLargeError, ProtocolError
from scaler.ids import NO_ID, ObjectId, TaskId
from scaler.pickling.serialization import DefaultSerializer, JsonSerializer, size_of
from scaler.wire.codec.codec import MESSAGE_ITEMS, UNWRITABLE, encode_message, numbers
from scaler.wire.messages.client import ClientHeartbeat, ClientHeartbeatEcho, Task, TaskCancel, TaskResult
from scaler.wire.messages.common import FOUND, Chunk, InstructionKind, ObjectInstruction, ObjectResponse, TaskStatus
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.worker import RunCancel, RunResult, RunTask
from scaler.wire.session.lane import LARGE_BYTES, MESSAGE_BYTES
from scaler.wire.session.lost_frames import LostFrames
from scaler.wire.session.pipe import ACKNOWLEDGED_BYTES, FAST_WINDOWS, WINDOW_LEAST_BYTES, Message, Pipe
from scaler.wire.session.streamed import PART_BYTES, StreamedFrames, ValueStream
from scaler.wire.session.too_large import SEND_LESS, without_result
from scaler.wire.session.transfer import WINDOW_BYTES, IncomingTransfer

WINDOW = WINDOW_LEAST_BYTES


def numbered(number: int) -> bytes:
    return number.to_bytes(16, "big")


def task(number: int, payload: bytes = b"payload", object_ids: bytes = b"") -> Task:
    return Task(TaskId(numbered(number)), ObjectId(numbered(9)), payload, object_ids)


def cancel(number: int) -> TaskCancel:
    return TaskCancel(TaskId(numbered(number)))


def stored(number: int, size: int, kind: int = InstructionKind.CREATE_FOR_TASK) -> ObjectInstruction:
    return ObjectInstruction(kind, ObjectId(numbered(number)), "", (bytes([number]) * size,))


class Pair:
    """The pipes of a client and of a scheduler, and the items that have arrived."""

    def __init__(self, window_bytes: int = WINDOW) -> None:
        self.heard: list[Any] = []
        self.counts: defaultdict[type, int] = defaultdict(int)
        self.client = Pipe(
            SCHEDULER_TO_CLIENT,
            CLIENT_TO_SCHEDULER,
            window_bytes=window_bytes,
            counts=self.counts,
            on_acknowledged=self.heard.extend,
        )
        self.scheduler = Pipe(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, window_bytes=window_bytes)
        self.came: list[Any] = []

    def send(self, *items: Any) -> list[Message]:
        self.client.put_all(items)
        return self.client.take()

    def deliver(self, messages: list[Message]) -> list[Any]:
        came: list[Any] = []
        for header, frames in messages:
            for batch in self.scheduler.receive(header, list(map(memoryview, frames))):
                came += batch
        self.came += came
        return came

    def acknowledge(self) -> None:
        self.client.receive(*self.scheduler.unnumbered([]))

    def finish(self) -> list[Any]:
        """Take, deliver and acknowledge until nothing is left."""
        while not self.client.is_idle:
            messages = self.client.take()
            self.deliver(messages)
            assert self.scheduler.is_acknowledgement_due or not self.client.has_pending
            self.acknowledge()
        return self.came


def with_bytes(items: list[Any]) -> list[Any]:
    return [
        ObjectInstruction(item.kind, item.object_id, item.name, tuple(map(bytes, item.frames)))
        if isinstance(item, ObjectInstruction)
        else item
        for item in items
    ]


# Numbers


def test_messages_are_counted_from_one_and_arrive_once() -> None:
    pair = Pair()
    first, second = pair.send(task(1)), pair.send(task(2), task(3))
    assert [numbers(CLIENT_TO_SCHEDULER, header) for header, _ in first + second] == [(1, 0), (2, 0)]
    assert pair.deliver(first + first + second + first) == [task(1), task(2), task(3)]
    assert (pair.client.last_sent, pair.scheduler.heard) == (2, 2)


def test_a_gap_in_the_message_numbers_is_refused() -> None:
    pair = Pair()
    pair.send(task(1))
    second = pair.send(task(2))
    with pytest.raises(ProtocolError, match="message 2 arrived, and message 1 was expected"):
        pair.deliver(second)


def test_every_message_of_the_other_side_is_an_acknowledgement() -> None:
    pair = Pair()
    pair.deliver(pair.send(task(1), task(2)))
    assert not pair.client.is_idle
    pair.scheduler.put(TaskResult(TaskId(numbered(1)), 0, b"", 0))
    for header, frames in pair.scheduler.take():
        assert numbers(SCHEDULER_TO_CLIENT, header) == (1, 1)
        pair.client.receive(header, frames)
    assert pair.heard == [task(1), task(2)]
    assert pair.client.is_idle
    assert pair.client.heard == 1


def test_an_acknowledgement_of_an_unsent_message_is_refused() -> None:
    pair = Pair()
    pair.send(task(1))
    with pytest.raises(ProtocolError, match="acknowledges message 2"):
        pair.client.receive(*encode_message(SCHEDULER_TO_CLIENT, [], 0, 2))


def test_heartbeats_are_not_counted_but_acknowledge_messages() -> None:
    pair = Pair()
    pair.deliver(pair.send(task(1)))
    ((beat,),) = pair.scheduler.receive(*pair.client.unnumbered([ClientHeartbeat(7)]))
    assert beat == ClientHeartbeat(7)
    assert pair.client.last_sent == 1
    ((echo,),) = pair.client.receive(*pair.scheduler.unnumbered([ClientHeartbeatEcho(7)]))
    assert echo == ClientHeartbeatEcho(7)
    assert pair.client.is_idle


def test_an_acknowledgement_is_due_after_many_received_bytes() -> None:
    pair = Pair()
    pair.deliver(pair.send(*[stored(1, 60_000)] * 5))
    assert pair.scheduler.is_acknowledgement_due
    pair.acknowledge()
    assert not pair.scheduler.is_acknowledgement_due
    pair.deliver(pair.send(task(1)))
    assert not pair.scheduler.is_acknowledgement_due


def test_an_unreadable_message_is_refused() -> None:
    with pytest.raises(ProtocolError):
        Pair().scheduler.receive(b"GET / HTTP/1.1\r\n", [])
    with pytest.raises(ProtocolError):
        Pair().scheduler.receive(*encode_message(SCHEDULER_TO_CLIENT, [ClientHeartbeatEcho(1)], 1, 0))


# Resuming


def test_a_resumed_session_resends_only_lost_messages() -> None:
    pair = Pair()
    arrived, _lost = pair.send(task(1)), pair.send(task(2))
    pair.deliver(arrived)
    pair.scheduler.put(TaskResult(TaskId(numbered(1)), 0, b"", 0))
    pair.scheduler.take()  # also lost
    again = pair.client.resume(pair.scheduler.heard)
    assert pair.heard == [task(1)]
    assert [numbers(CLIENT_TO_SCHEDULER, header) for header, _ in again] == [(2, 0)]
    for header, frames in pair.scheduler.resume(pair.client.heard):
        pair.client.receive(header, frames)
    assert pair.deliver(again + pair.send(task(3))) == [task(2), task(3)]


def test_a_resent_message_acknowledges_messages_received_since() -> None:
    pair = Pair()
    lost = pair.send(task(1))
    pair.scheduler.put(TaskResult(TaskId(numbered(1)), 0, b"", 0))
    pair.client.receive(*pair.scheduler.take()[0])
    ((again, _),) = pair.client.resume(0)
    assert numbers(CLIENT_TO_SCHEDULER, lost[0][0]) == (1, 0)
    assert numbers(CLIENT_TO_SCHEDULER, again) == (1, 1)


def test_impossible_acknowledgements_of_a_hello_are_refused() -> None:
    pair = Pair()
    pair.deliver(pair.send(task(1)))
    pair.acknowledge()
    with pytest.raises(ProtocolError, match="has received only message 0"):
        pair.client.resume(0)
    with pytest.raises(ProtocolError, match="acknowledges message 2"):
        pair.client.resume(2)


def test_unheard_returns_unacknowledged_and_pending_items() -> None:
    pair = Pair()
    pair.deliver(pair.send(task(1)))
    pair.acknowledge()
    large = stored(5, 3 * WINDOW)
    pair.send(task(2), large)
    pair.client.put(task(3))
    assert list(pair.client.unacknowledged()) == [task(2), large, task(3)]


# Lanes


def test_small_items_overtake_a_large_one() -> None:
    pair = Pair()
    first_part = pair.send(stored(1, 4 * WINDOW))
    assert pair.deliver(first_part + pair.send(task(2), cancel(3))) == [task(2), cancel(3)]
    assert with_bytes(pair.finish()) == [task(2), cancel(3), stored(1, 4 * WINDOW)]


def test_at_most_one_window_of_the_bulk_lane_is_unacknowledged() -> None:
    pair = Pair()
    messages = pair.send(stored(1, 10 * WINDOW))
    assert WINDOW <= sum(len(bytes(frame)) for _, frames in messages for frame in frames) < WINDOW + WINDOW // 4
    assert pair.client.take() == []
    assert pair.client.has_pending
    pair.deliver(messages)
    assert pair.scheduler.is_acknowledgement_due
    assert pair.scheduler.arriving_bytes >= WINDOW - 1000
    pair.acknowledge()
    assert pair.client.take()


def test_the_unacknowledged_bytes_of_small_items_are_bounded() -> None:
    pair = Pair()
    items = [task(number, bytes(5000)) for number in range(FAST_WINDOWS * WINDOW // 5000 * 2)]
    messages = pair.send(*items)
    n_bytes = sum(len(header) for header, _ in messages)
    assert FAST_WINDOWS * WINDOW <= n_bytes < FAST_WINDOWS * WINDOW + MESSAGE_BYTES
    assert pair.client.take() == []
    pair.deliver(messages)
    assert pair.finish() == items


def test_a_task_follows_its_object_and_its_cancel_follows_both() -> None:
    pair = Pair()
    object_ids = numbered(1)
    large, named = stored(1, 2 * WINDOW), task(2, object_ids=object_ids)
    messages = pair.send(large, named, task(3))
    messages += pair.send(cancel(2), cancel(3))
    assert pair.deliver(messages) == [task(3), cancel(3)]
    assert with_bytes(pair.finish())[2:] == [large, named, cancel(2)]


def test_a_cancel_withdraws_a_pending_task_and_its_own_pending_objects() -> None:
    pair = Pair()
    first, shared = stored(1, 2 * WINDOW), stored(5, LARGE_BYTES + 1, InstructionKind.CREATE)
    pair.deliver(pair.send(first, task(2, object_ids=numbered(1)), shared))
    pair.deliver(pair.send(stored(3, 2 * WINDOW), task(4, object_ids=numbered(3) + numbered(5)), cancel(4)))
    assert with_bytes(pair.finish()) == [first, task(2, object_ids=numbered(1)), shared]


def test_a_cancel_limited_to_waiting_tasks_is_sent_since_its_answer_is_awaited() -> None:
    pair = Pair()
    large, waiting = stored(1, 2 * WINDOW), TaskCancel(TaskId(numbered(4)), waiting=1)
    pair.deliver(pair.send(large, stored(3, 2 * WINDOW), task(4, object_ids=numbered(3)), waiting))
    assert with_bytes(pair.finish())[-1] == waiting


def test_a_cancel_keeps_objects_that_another_task_names() -> None:
    pair = Pair()
    pair.deliver(pair.send(stored(1, 2 * WINDOW)))
    large = stored(3, LARGE_BYTES + 1)
    pair.deliver(pair.send(large, task(4, object_ids=numbered(3)), task(5, object_ids=numbered(3)), cancel(4)))
    assert with_bytes(pair.finish())[1:] == [large, task(5, object_ids=numbered(3))]


def test_large_items_are_sent_one_after_the_other() -> None:
    """The first task of a burst starts as soon as its own argument has arrived."""
    pair = Pair()
    burst: list[Any] = []
    for number in range(1, 6):
        burst += [stored(number, 3 * WINDOW), task(100 + number, object_ids=numbered(number))]
    pair.deliver(pair.send(*burst))
    assert with_bytes(pair.finish()) == burst


def test_a_large_item_arrives_with_frames_of_any_size() -> None:
    pair = Pair()
    frames = (b"", b"abc", memoryview(bytearray(range(256)) * 2000), b"", *[b"x"] * 1000, b"")
    item = ObjectInstruction(InstructionKind.CREATE, ObjectId(numbered(1)), "a name", frames)
    pair.deliver(pair.send(item))
    (came,) = pair.finish()
    assert tuple(map(bytes, came.frames)) == tuple(map(bytes, frames))
    assert came.name == "a name"


def test_a_large_payload_is_sent_in_chunks() -> None:
    pair = Pair()
    large = task(1, bytes(3 * MESSAGE_BYTES))
    assert pair.deliver(pair.send(large, task(2))) == [task(2)]
    assert pair.finish() == [task(2), large]


def test_frames_are_not_copied_before_they_are_sent() -> None:
    pair = Pair()
    frame = bytearray(WINDOW)
    pair.send(ObjectInstruction(InstructionKind.CREATE, ObjectId(numbered(1)), "", (frame,)))
    views = [part for _, parts in pair.client.resume(0) for part in parts if len(part) > 1000]
    assert views
    assert all(view.obj is frame for view in views)


def test_messages_are_bounded_in_bytes_and_items() -> None:
    pair = Pair()
    items = [task(number, bytes(1000)) for number in range(3000)] + [task(number) for number in range(9000)]
    for header, _ in pair.send(*items):
        assert len(header) <= MESSAGE_BYTES
    assert pair.counts == {Task: 12_000}
    assert Pair().send(*[task(1)] * (2 * MESSAGE_ITEMS))


def test_over_a_network_messages_are_small() -> None:
    """A peer counts as silent until a whole message has arrived, however slow the network is."""
    pair = Pair(WINDOW_BYTES)
    small = [task(number, bytes(1000)) for number in range(3000)]
    messages = pair.send(*small, stored(1, 10 * WINDOW), task(2, b"", object_ids=numbered(1)))
    assert all(len(header) + size_of(frames) < LARGE_BYTES + 500 for header, frames in messages)
    assert len(pair.deliver(messages)) == len(small)


def test_items_are_counted_when_they_are_sent() -> None:
    pair = Pair()
    pair.deliver(pair.send(task(1), stored(1, WINDOW), task(2)))
    pair.finish()
    assert pair.counts.pop(Chunk) >= 4
    assert pair.counts == {Task: 2, ObjectInstruction: 1}


def test_the_size_of_a_pipe_counts_pending_and_unacknowledged_items() -> None:
    pair = Pair()
    assert pair.client.size_bytes() == 0
    pair.deliver(pair.send(task(1, bytes(5000))))
    assert 5000 < pair.client.size_bytes() < 6000
    pair.client.put(stored(1, 10 * WINDOW))
    assert 10 * WINDOW < pair.client.size_bytes() < 11 * WINDOW
    pair.finish()
    assert pair.client.size_bytes() == 0


def test_an_unwritable_item_raises() -> None:
    pair = Pair()
    with pytest.raises(OverflowError):
        pair.send(ClientHeartbeat(2**64))


def named(number: int, name: Any, size: int = 0) -> Task:
    return Task(TaskId(numbered(number)), ObjectId(numbered(9)), bytes(size), b"", name=name)


@pytest.mark.parametrize(
    "wrong",
    [
        named(99, 23),
        named(99, None),
        replace(task(99), priority=2**40),
        replace(task(99), priority=2.5),
        replace(task(99), frames=("text",)),
        ObjectInstruction(InstructionKind.CREATE, ObjectId(numbered(99)), "", (bytes(LARGE_BYTES), "text")),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", [0, 5, 2100, 2999])
def test_an_unwritable_item_is_dropped_and_every_other_item_arrives_once(wrong: Any, place: int) -> None:
    pair = Pair()
    items: list[Any] = [named(number, f"task {number}") for number in range(1, 3000)]
    pair.client.put_all([*items[:place], wrong, *items[place:]])
    with pytest.raises(UNWRITABLE):
        pair.finish()
    assert [item for item, _ in pair.client.drop_unwritable()] == [wrong]
    pair.finish()
    assert pair.came == items
    assert pair.client.drop_unwritable() == []


@pytest.mark.parametrize("size", [0, 2 * LARGE_BYTES])
def test_an_unwritable_item_behind_large_items_is_dropped(size: int) -> None:
    pair = Pair()
    one, other, follower = stored(1, 3 * WINDOW), stored(2, 3 * WINDOW), task(3, object_ids=numbered(1))
    wrong = replace(named(4, 23, size), object_ids=numbered(1))
    pair.client.put_all([one, follower, wrong, other])
    with pytest.raises(UNWRITABLE):
        pair.finish()
    assert [item for item, _ in pair.client.drop_unwritable()] == [wrong]
    pair.finish()
    assert pair.came == [one, follower, other]
    assert pair.client.size_bytes() == 0


# Claims of peers


def first_chunk(number: int, *sizes: int, transfer: int = 1, frames: tuple[bytes, ...] = (b"x",)) -> Message:
    packed = b"".join(size.to_bytes(8, "little") for size in sizes)
    return encode_message(CLIENT_TO_SCHEDULER, [Chunk(transfer, packed, frames)], number)


def test_claimed_sizes_take_no_memory() -> None:
    pipe = Pair().scheduler
    assert pipe.receive(*first_chunk(1, 2**63, 2**63)) == []
    assert pipe.arriving_bytes == 1


@pytest.mark.parametrize(
    ("chunk", "why"),
    [
        (Chunk(1, b"", (b"x",)), "invalid table of sizes [(]0 bytes"),
        (Chunk(1, bytes(8 * 70_000), ()), "invalid table of sizes"),
        (Chunk(2, (5).to_bytes(8, "little"), (b"x",)), "transfer 2 arrived, and transfer 1 was expected"),
        (Chunk(1, (5).to_bytes(8, "little"), (b"xxx", b"xxx")), "more bytes than announced"),
        (Chunk(1, (5).to_bytes(8, "little"), (b"xxxxx",)), "not a ClientToScheduler message"),
    ],
)
def test_chunks_that_break_a_rule_are_refused(chunk: Chunk, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        Pair().scheduler.receive(*encode_message(CLIENT_TO_SCHEDULER, [chunk], 1))


def test_a_chunk_of_another_transfer_is_refused() -> None:
    for second in (first_chunk(2, 5), encode_message(CLIENT_TO_SCHEDULER, [Chunk(2, b"", (b"x",))], 2)):
        pipe = Pair().scheduler
        pipe.receive(*first_chunk(1, 1000))
        with pytest.raises(ProtocolError):
            pipe.receive(*second)


def streamed(n_bytes: int) -> tuple[ValueStream, list[int], ObjectResponse]:
    """Return a value that arrives in parts, the requested offsets, and the item that carries it to a reader."""
    asked: list[int] = []
    stream = ValueStream([n_bytes], (None, b""), lambda _source, offset: asked.append(offset))
    return stream, asked, ObjectResponse(ObjectId(numbered(1)), FOUND, StreamedFrames(stream, None, lambda: None))


def through(pair: Pair) -> list[Any]:
    """Take, deliver and acknowledge what the scheduler may send now. Return what arrived."""
    came: list[Any] = []
    while messages := pair.scheduler.take():
        for header, frames in messages:
            came += [item for batch in pair.client.receive(header, [*map(memoryview, frames)]) for item in batch]
        pair.scheduler.receive(*pair.client.unnumbered([]))
    return came


def test_a_streamed_value_is_sent_as_its_parts_arrive_and_delays_no_small_items() -> None:
    pair = Pair()
    value = bytes(range(256)) * 4096
    stream, asked, item = streamed(len(value))
    pair.scheduler.put_streamed(item)
    assert through(pair) == []
    while asked:
        offset = asked.pop(0)
        pair.scheduler.put(ClientHeartbeatEcho(offset, 0))
        assert through(pair) == [ClientHeartbeatEcho(offset, 0)]
        assert pair.scheduler.size_bytes() < LARGE_BYTES, "bytes at other hosts do not count"
        stream.add(offset, memoryview(value)[offset : offset + PART_BYTES])
        last = through(pair)
    [came] = last
    assert (came.found, b"".join(came.frames)) == (FOUND, value)


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_transfer_whose_value_is_lost_or_whose_reader_leaves_ends_and_the_next_transfer_starts(
    *, is_lost: bool
) -> None:
    pair = Pair()
    stream, _, item = streamed(2 * PART_BYTES)
    pair.scheduler.put_streamed(item)
    pair.scheduler.put(ObjectResponse(ObjectId(numbered(2)), FOUND, (bytes(LARGE_BYTES + 1),)))
    assert through(pair) == []
    stream.add(0, memoryview(bytes(PART_BYTES)))
    assert through(pair) == []
    assert pair.client.arriving_bytes > PART_BYTES
    if is_lost:
        assert len(stream.withdraw()) == 1
    else:
        stream.leave(list(stream.readers))
    assert [each.object_id for each in through(pair)] == [numbered(2)]
    assert pair.client.arriving_bytes == 0


def test_a_large_message_that_is_too_large_for_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(_arrival: IncomingTransfer, _frames: object) -> bool:
        raise MemoryError

    pipe = Pair().scheduler
    pipe.receive(*first_chunk(1, 1000))
    monkeypatch.setattr(IncomingTransfer, "add", no_memory)
    with pytest.raises(ProtocolError, match="no memory for a message of 1,000 bytes"):
        pipe.receive(*encode_message(CLIENT_TO_SCHEDULER, [Chunk(1, b"", (b"x",))], 2))
    assert pipe.arriving_bytes == 0


LARGE_RESULT = RunResult(TaskId(b"t" * 16), 3, 7, TaskStatus.SUCCESS, b"", 5, (bytes(300_000),))
LARGE_RESPONSE = ObjectResponse(ObjectId(b"o" * 16), 1, (bytes(300_000),))
LARGE_OBJECT = ObjectInstruction(InstructionKind.CREATE, ObjectId(b"o" * 16), "", (bytes(300_000),))


@pytest.mark.parametrize(
    ("incoming", "outgoing", "item", "instead"),
    [
        (
            AGENT_TO_SCHEDULER,
            SCHEDULER_TO_AGENT,
            LARGE_RESULT,
            without_result(LARGE_RESULT, ObjectTooLargeError("its result", 300_232, "the scheduler", None, SEND_LESS)),
        ),
        (
            SCHEDULER_TO_AGENT,
            AGENT_TO_SCHEDULER,
            LARGE_RESPONSE,
            replace(LARGE_RESPONSE, found=0, frames=(), reason="its worker's host has no memory for its 300,152 bytes"),
        ),
    ],
)
def test_a_value_too_large_for_the_memory_fails_its_task_and_not_the_session(
    incoming: Direction, outgoing: Direction, item: Any, instead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sent_without_memory(incoming, outgoing, item, monkeypatch) == [instead, replace(item, frames=())]


def test_an_object_too_large_for_the_memory_arrives_without_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, small = sent_without_memory(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, LARGE_OBJECT, monkeypatch)
    assert (lost.kind, lost.object_id, list(lost.frames)) == (LARGE_OBJECT.kind, LARGE_OBJECT.object_id, [])
    assert type(lost.frames) is LostFrames
    assert "no memory for its 300,144 bytes" in lost.frames.reason
    assert small == replace(LARGE_OBJECT, frames=())


def test_only_the_header_of_a_message_beyond_the_receivers_capacity_is_kept() -> None:
    pair = Pair()
    pair.scheduler = Pipe(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, window_bytes=WINDOW, room=lambda: 200_000)
    small, large = stored(1, 190_000), stored(2, 300_000)
    pair.client.put_all([small, large, small])
    came = pair.finish()
    assert with_bytes([came[0], came[2]]) == [small, small]
    assert type(came[1].frames) is LostFrames
    assert came[1].object_id == large.object_id


def test_items_on_their_way_are_partly_sent_and_unacknowledged() -> None:
    pair = Pair()
    first, second, third = (stored(number, 300_000) for number in (1, 2, 3))
    assert pair.client.on_their_way() == []
    pair.client.put_all([task(1), first, task(2, object_ids=first.object_id), second, third])
    assert pair.client.on_their_way() == []
    messages = pair.client.take()
    assert pair.client.on_their_way() == [first], "the window is smaller than an object"
    while pair.client.on_their_way() == [first]:
        pair.deliver(messages)
        pair.acknowledge()
        messages = pair.client.take()
    assert pair.client.on_their_way() == [first, second], "the last part of the first one is sent and not acknowledged"
    pair.deliver(messages)
    pair.acknowledge()
    assert pair.client.on_their_way() == [second]
    pair.finish()
    assert pair.client.on_their_way() == []


def test_reading_a_result_that_is_too_large_for_the_clients_memory_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    came = sent_without_memory(SCHEDULER_TO_CLIENT, CLIENT_TO_SCHEDULER, LARGE_RESPONSE, monkeypatch)
    assert [(each.object_id, each.found) for each in came] == [(LARGE_RESPONSE.object_id, 1)] * 2
    lost = came[0].frames
    assert (len(lost), size_of(lost)) == (0, 0)
    for serializer in (DefaultSerializer(), JsonSerializer()):
        value, error = read_value(serializer, lost)
        assert value is None
        assert isinstance(error, DeserializeObjectError)
        assert str(unread_result(error, "f")) == (
            "task f: its result cannot be read here: MemoryError: the value has 300,152 bytes, and this process has no "
            "memory for them"
        )


def sent_without_memory(
    incoming: Direction, outgoing: Direction, item: Any, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """Return what arrives of an item and of a small one behind it, at a peer that has memory only for the header."""
    keep = IncomingTransfer._keep

    def keep_header(arrival: IncomingTransfer, frames: Sequence[Any]) -> None:
        keep(arrival, frames)
        if arrival.n_bytes > 100_000:
            raise MemoryError

    monkeypatch.setattr(IncomingTransfer, "_keep", keep_header)
    here, there = Pipe(outgoing, incoming, window_bytes=WINDOW), Pipe(incoming, outgoing, window_bytes=WINDOW)
    here.put(item)
    here.put(replace(item, frames=()))
    came: list[Any] = []

    while messages := here.take():
        for header, frames in messages:
            for batch in there.receive(header, list(map(memoryview, frames))):
                came.extend(batch)
        here.receive(*there.unnumbered([]))
    assert there.arriving_bytes == 0
    return came


def test_nested_and_unnumbered_chunks_are_refused() -> None:
    inner, frames = encode_message(CLIENT_TO_SCHEDULER, [Chunk(1, bytes(8), (b"x",))])
    sizes = (len(inner), len(frames[0]))
    with pytest.raises(ProtocolError, match="an unexpected chunk"):
        Pair().scheduler.receive(*first_chunk(1, *sizes, frames=(inner, frames[0])))
    with pytest.raises(ProtocolError, match="an unexpected chunk"):
        Pair().scheduler.receive(*first_chunk(0, 5))


def test_a_large_response_is_sent_in_chunks() -> None:
    pair = Pair()
    pair.scheduler.put(ObjectResponse(ObjectId(NO_ID), 1, (bytes(WINDOW),)))
    came = [batch for message in pair.scheduler.take() for batch in pair.client.receive(*message)]
    assert not pair.scheduler.has_pending or not came
    assert pair.client.is_acknowledgement_due
    assert pair.client._unanswered_bytes >= ACKNOWLEDGED_BYTES


def test_unsent_items_can_be_withdrawn_and_other_messages_keep_their_numbers() -> None:
    sender, receiver = Pipe(AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT), Pipe(SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER)
    first, second, third = (RunTask(bytes([n]) * 16, 0, n, b"f" * 16, b"", b"") for n in range(3))
    cancel = RunCancel(b"t" * 16, 0, 1)
    sender.put(first)
    (left,) = sender.take()
    sender.put_all([second, cancel])
    sender.take()
    sender.put_all([third, cancel])
    assert sender.withdraw(RunTask, after=1) == [second, third]
    assert sender.withdraw(RunTask, after=1) == []
    received = [
        batch for message in (left, *sender.resume(0)[1:], *sender.take()) for batch in receiver.receive(*message)
    ]
    assert [list(batch) for batch in received] == [[first], [cancel], [cancel]]
    assert receiver.heard == sender.last_sent == 3


def test_a_message_whose_items_were_withdrawn_is_still_counted() -> None:
    sender, receiver = Pipe(AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT), Pipe(SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER)
    order = RunTask(b"t" * 16, 0, 1, b"f" * 16, b"", b"")
    sender.put(order)
    sender.take()
    assert sender.withdraw(RunTask, after=0) == [order]
    (message,) = sender.resume(0)
    assert receiver.receive(*message) == []
    assert receiver.heard == 1
    assert list(sender.unacknowledged()) == []


def test_with_large_chunks_a_value_of_a_quarter_chunk_is_sent_whole_and_larger_values_are_not() -> None:
    pair = Pair(WINDOW_BYTES * 16)
    whole, cut = [replace(task(number), frames=(bytes(size),)) for number, size in ((1, 250_000), (2, 270_000))]
    [message] = pair.send(whole)
    assert pair.deliver([message]) == [whole]
    assert pair.send(cut)[0][1] != [cut.frames[0]]
    assert pair.client.on_their_way() == [cut]


def test_tasks_with_frames_of_medium_size_share_messages() -> None:
    pair = Pair(WINDOW_BYTES * 16)
    tasks = [replace(task(number), frames=(bytes([number]) * 30_000,)) for number in range(1, 41)]
    messages = pair.send(*tasks)
    assert max(len(header) + sum(map(len, frames)) for header, frames in messages) <= MESSAGE_BYTES
    assert len(messages) <= 3
    pair.deliver(messages)
    assert [(each.task_id, list(map(bytes, each.frames))) for each in pair.finish()] == [
        (each.task_id, list(each.frames)) for each in tasks
    ]


def test_a_task_whose_frames_find_no_memory_arrives_without_them() -> None:
    pair = Pair()
    pair.scheduler._room = lambda: 100_000.0
    large = replace(task(1), frames=(bytes(200_000),))
    pair.deliver(pair.send(large, task(2)))
    assert pair.finish() == [task(2), task(1)]
