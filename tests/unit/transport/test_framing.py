from __future__ import annotations

import mmap
import os
import struct
from collections import deque
from math import inf

import pytest

from scaler.pickling.serialization import OUT_OF_BAND_BYTES
from scaler.transport.framing import (
    FRAMES_MOST,
    GREETING,
    LAZY_BYTES,
    WRITTEN_ALONE_BYTES,
    GarbledError,
    ReceiveBuffer,
    drop_bytes,
    pieces_of,
)


def stream_of(*messages: tuple[bytes, list[bytes]]) -> bytes:
    return GREETING + b"".join(b"".join(map(bytes, pieces_of(*message))) for message in messages)


def inflow(frame_bytes: int = 10 * OUT_OF_BAND_BYTES, message_bytes: float = inf) -> ReceiveBuffer:
    return ReceiveBuffer(frame_bytes, message_bytes)


def test_a_single_small_message_is_one_piece() -> None:
    assert pieces_of(b"header", []) == [b"\1\0\0\0\6\0\0\0header"]


def test_large_frames_are_not_copied_and_small_ones_are_joined() -> None:
    large = bytearray(os.urandom(OUT_OF_BAND_BYTES))
    pieces = pieces_of(b"header", [b"small", large, memoryview(b""), b"other"])
    assert [len(piece) for piece in pieces] == [4 + 5 * 4 + 6 + 5, OUT_OF_BAND_BYTES, 5]
    assert pieces[1].obj is large


def test_frames_of_medium_size_are_sent_without_a_copy() -> None:
    middle = [os.urandom(WRITTEN_ALONE_BYTES), os.urandom(30_000)]
    pieces = pieces_of(b"header", [middle[0], b"small", middle[1]])
    assert len(pieces) == 4
    assert all(piece.obj is frame for piece, frame in zip(pieces[1::2], middle, strict=True))
    [(_, frames)] = inflow().take(stream_of((b"header", [middle[0], b"small", middle[1]])))
    assert list(map(bytes, frames)) == [middle[0], b"small", middle[1]]


def test_frames_of_other_formats_count_in_bytes() -> None:
    numbers = memoryview(bytes(range(64))).cast("Q")
    [(_, [frame])] = inflow().take(stream_of((b"", [numbers])))  # type: ignore[list-item]
    assert frame == bytes(range(64))


def test_received_frames_are_writable_and_share_no_memory() -> None:
    large = os.urandom(OUT_OF_BAND_BYTES)
    known = inflow()
    stream = stream_of((b"h", [b"a", b"b", large, large]))
    assert known.take(stream[:-1]) == []
    known.room[:] = stream[-1:]
    [(header, frames)] = known.filled(1)
    assert (header, [bytes(frame) for frame in frames]) == (b"h", [b"a", b"b", large, large])
    assert len({id(frame.obj) for frame in frames}) == 4
    for frame in frames:
        frame[0] = 7
    assert frames[0].obj == b"\7", "a small frame keeps nothing but itself"


def test_the_rest_of_a_partial_frame_is_read_in_place_without_the_next_frame() -> None:
    frames = [os.urandom(30_000) for _ in range(3)]
    stream, known = stream_of((b"h", frames)), inflow()
    assert known.take(stream[:40_000]) == []
    rest = len(known.room)
    assert 0 < rest < 30_000
    known.room[:] = stream[40_000 : 40_000 + rest]
    assert known.filled(rest) == []
    assert not known.room, "the next bytes may have the rest of the message and further messages"
    [(_, taken)] = known.take(stream[40_000 + rest :])
    assert list(map(bytes, taken)) == frames


def take_byte_by_byte(known: ReceiveBuffer, stream: bytes) -> None:
    for number in range(len(stream)):
        assert known.take(stream[number : number + 1]) == []


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\0\0\0\0\0\0\0\1\x7f\3",
        GREETING[:4] + b"X",
        GREETING + b"\0\0\0\0",
        GREETING + (FRAMES_MOST + 1).to_bytes(4, "little"),
        GREETING + b"\1\0\0\0\xff\xff\xff\xff",
        GREETING + b"\2\0\0\0" + 2 * (900_000).to_bytes(4, "little"),
    ],
    ids=["HTTP", "ZeroMQ", "greeting", "no frame", "frames", "frame", "message"],
)
def test_garbage_is_refused_before_it_takes_memory(stream: bytes) -> None:
    with pytest.raises(GarbledError):
        inflow(1_000_000, 1_500_000).take(stream)
    with pytest.raises(GarbledError):
        take_byte_by_byte(inflow(1_000_000, 1_500_000), stream)


def test_announced_sizes_take_no_memory_before_the_frames_arrive() -> None:
    known = inflow(frame_bytes=LAZY_BYTES)
    sizes = [LAZY_BYTES - 1, LAZY_BYTES, OUT_OF_BAND_BYTES - 1] * 1000
    known.take(GREETING + struct.pack(f"<{1 + len(sizes)}I", len(sizes), *sizes) + b"x")
    assert (len(known.room), len(known._frames)) == (LAZY_BYTES - 2, 0)
    known.filled(len(known.room))
    known.take(b"x")
    assert (len(known.room), len(known._frames)) == (LAZY_BYTES - 1, 1)
    assert isinstance(known.room.obj, mmap.mmap), "the system gives its pages one by one"


def test_a_message_may_have_the_maximum_number_of_frames() -> None:
    [(header, frames)] = inflow().take(stream_of((b"h", [b""] * (FRAMES_MOST - 1))))
    assert (header, len(frames)) == (b"h", FRAMES_MOST - 1)


def test_bytes_are_dropped_across_pieces() -> None:
    pieces = deque([b"ab", b"cde", b"f"])
    drop_bytes(pieces, 3)
    assert b"".join(pieces) == b"def"
    drop_bytes(pieces, 3)
    assert not pieces
