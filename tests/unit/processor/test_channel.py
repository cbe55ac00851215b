"""Channel: framing over real sockets, shared memory, partial writes, and ends."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from scaler.processor.channel import Channel, ChannelClosedError
from scaler.shared_memory import INLINE_FRAMES_BYTES, SharedBlock, writable
from tests.support.processes import open_descriptors, open_files


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """A channel's agent end, which does not block, and its processor end, which does."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    agent, processor = Channel(ours), Channel(theirs)
    yield agent, processor
    agent.close()
    processor.close()


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"", b"a", b"", memoryview(b"bcd")],
        [b"x" * INLINE_FRAMES_BYTES],
        [b"x" * INLINE_FRAMES_BYTES, b"y"],
        [b"", bytearray(3_000_001), b"", memoryview(b"z" * 100)],
    ],
    ids=["none", "empty", "small", "most inline", "least shared", "shared"],
)
def test_message_arrives_as_it_was_sent(ends: tuple[Channel, Channel], frames: list[bytes]) -> None:
    agent, processor = ends
    for sender, receiver in (ends, (processor, agent)):
        sender.send(b"header", frames)
        [(header, received)] = receiver.receive()
        assert header == b"header"
        assert [bytes(frame) for frame in received] == [bytes(frame) for frame in frames]


def test_many_messages_keep_their_order(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    received: list[tuple[bytes, list[bytes]]] = []

    def read() -> None:
        while len(received) < 500:
            received.extend((header, [bytes(frame) for frame in frames]) for header, frames in processor.receive())

    reader = threading.Thread(target=read)
    reader.start()
    sent = [(b"%d" % i, [bytes([i % 251]) * size]) for i, size in enumerate((0, 10, 5000, 70_000, 1) * 100)]
    for header, frames in sent:
        agent.send(header, frames)
    while not agent.flush():
        pass
    reader.join(30)
    assert received == sent


def test_messages_that_the_socket_does_not_take_are_sent_later(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    messages = [(b"%d" % i * 1000, [b"x" * 50_000]) for i in range(100)]
    results = [agent.send(*message) for message in messages]
    assert results[0]
    assert not results[-1]
    received: list[bytes] = []
    while len(received) < len(messages):
        received.extend(header for header, _ in processor.receive())
        agent.flush()
    assert received == [header for header, _ in messages]
    assert agent.flush()


def test_a_message_in_single_bytes_arrives() -> None:
    ours, theirs = socket.socketpair()
    collecting, sink = socket.socketpair()
    Channel(collecting).send(b"header", [b"ab", b"", b"c"])
    receiver = Channel(theirs)
    theirs.setblocking(False)
    messages = []
    for byte in sink.recv(4096):
        assert not messages
        ours.send(bytes([byte]))
        messages.extend(receiver.receive())
    assert [(header, [bytes(frame) for frame in frames]) for header, frames in messages] == [
        (b"header", [b"ab", b"", b"c"])
    ]
    for each in (ours, theirs, collecting, sink):
        each.close()


def test_the_received_part_of_a_message_is_not_copied_when_more_arrives() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    sender, receiver = Channel(ours), Channel(theirs)
    header = b"x" * (4 << 20)
    sender.send(b"small", [])
    sender.send(header, [])
    tracemalloc.start()
    try:
        assert receiver.receive() == [(b"small", [])]
        while not sender.flush():
            assert receiver.receive() == []
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1.5 * len(header)
    assert receiver.receive() == [(header, [])]
    sender.close()
    receiver.close()


def test_one_block_serves_several_receivers(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    block = SharedBlock.of([b"a" * 100_000, b"b"])
    agent.send_block(b"1", block)
    agent.send_block(b"2", block)
    messages = processor.receive()
    while len(messages) < 2:
        messages += processor.receive()
    assert [[bytes(frame[:1]) for frame in frames] for _, frames in messages] == [[b"a", b"b"]] * 2
    with pytest.raises(TypeError):
        messages[0][1][0][0] = 1


def test_received_blocks_leave_no_descriptor(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    before = open_descriptors()
    for _ in range(20):
        agent.send(b"", [bytes(100_000)])
        [(_, frames)] = processor.receive()
        assert frames[0][0] == 0
        del frames
    assert open_descriptors() <= before + 5  # not one for each message; leftovers of other tests may open some


def test_the_end_of_the_stream_is_raised_after_the_last_message(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    processor.send(b"last", [])
    processor.close()
    assert agent.receive() == [(b"last", [])]
    with pytest.raises(ChannelClosedError):
        agent.receive()


def test_sending_to_a_closed_end_raises(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    processor.close()
    with pytest.raises(ChannelClosedError):
        agent.send(b"header", [])


def test_receive_without_a_message_returns_an_empty_list(ends: tuple[Channel, Channel]) -> None:
    agent, _ = ends
    assert agent.receive() == []


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 9, (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + b"\x01" + (10).to_bytes(8, "little")],
    ids=["too many frames", "block without a descriptor"],
)
def test_garbage_closes_the_channel(garbage: bytes) -> None:
    ours, theirs = socket.socketpair()
    receiver = Channel(ours)
    theirs.send(garbage)
    with pytest.raises(ChannelClosedError):
        receiver.receive()
    receiver.close()
    theirs.close()


def test_a_block_that_is_smaller_than_announced_closes_the_channel(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    block = SharedBlock.of([b"x"])
    block.sizes = [10_000]
    agent.send_block(b"header", block)
    with pytest.raises(ChannelClosedError):
        processor.receive()


def test_complete_messages_before_a_bad_block_are_returned_first(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    agent.send(b"first", [])
    agent.send(b"second", [])
    block = SharedBlock.of([b"x"])
    block.sizes = [10_000]
    agent.send_block(b"header", block)
    received = processor.receive()
    while len(received) < 2:
        received += processor.receive()
    assert received == [(b"first", []), (b"second", [])]
    with pytest.raises(ChannelClosedError):
        processor.receive()


def test_has_come_reports_without_waiting(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    assert not processor.has_input()
    agent.send(b"x", [])
    assert processor.has_input()
    assert processor.receive() == [(b"x", [])]
    assert not processor.has_input()
    agent.close()
    assert processor.has_input(), "the end"


@pytest.mark.parametrize("sizes", [(), (0,), (100, 0, 3), (70_000,), (30_000,) * 30, (1_100_000,), (5_000_000,)])
def test_frames_in_the_stream_arrive_between_other_messages_and_are_writable(
    ends: tuple[Channel, Channel], sizes: tuple[int, ...]
) -> None:
    agent, processor = ends
    sent = [bytes([number]) * size for number, size in enumerate(sizes, 1)]
    messages = [(b"first", []), (b"tasks", sent), (b"more", sent), (b"block", [b"x" * 70_000]), (b"last", [])]
    received: list[tuple[bytes, list[memoryview]]] = []

    def read() -> None:
        while len(received) < len(messages):
            received.extend(processor.receive())

    reader = threading.Thread(target=read)
    reader.start()
    before = open_files()
    for header, frames in messages[:3]:
        agent.send_in_stream(header, frames)
    assert open_files() == before
    for header, frames in messages[3:]:
        agent.send(header, frames)
    while not agent.flush():
        pass
    reader.join(10)
    assert [(header, list(map(bytes, frames))) for header, frames in received] == messages
    if sum(sizes) > 65_536 and sum(sizes) < 4_000_000:
        assert all(writable(frame) is frame for frame in received[1][1]), "no copy"


def test_an_incomplete_message_ends_with_the_channel(ends: tuple[Channel, Channel]) -> None:
    agent, processor = ends
    agent.send_in_stream(b"header", [bytes(1_000_000)])  # the rest that the socket does not take waits in the channel
    agent.close()
    with pytest.raises(ChannelClosedError):
        processor.receive()
