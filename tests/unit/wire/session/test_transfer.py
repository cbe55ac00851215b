from __future__ import annotations

import tracemalloc

import pytest

from scaler.endpoint import Endpoint
from scaler.errors import ProtocolError
from scaler.wire.messages.common import Chunk
from scaler.wire.session.transfer import (
    PIECES_MOST,
    WINDOW_BYTES,
    WINDOWS_WITHOUT_NETWORK,
    IncomingTransfer,
    OutgoingTransfer,
    window_at,
)


def chunks(frames: list[bytes], most_bytes: int) -> list[Chunk]:
    departure = OutgoingTransfer(3, frames)
    found = []
    while departure.left_bytes:
        found.append(departure.next(most_bytes))
    return found


def arrived(sent: list[Chunk]) -> list[bytes]:
    arrival = IncomingTransfer(sent[0])
    ends = [arrival.add(chunk.frames) for chunk in sent]
    assert ends == [False] * (len(sent) - 1) + [True]
    header, frames = arrival.message()
    return [header, *map(bytes, frames)]


@pytest.mark.parametrize("most_bytes", [1, 2, 7, 100, 10**9])
@pytest.mark.parametrize(
    "frames",
    [
        [b"header"],
        [b"header", b""],
        [b"header", b"", b"", b"a frame", b"", b"another frame"],
        [b"header", bytes(range(256)), b"", b"last", b""],
    ],
)
def test_frames_cut_into_chunks_of_any_size_arrive(frames: list[bytes], most_bytes: int) -> None:
    assert arrived(chunks(frames, most_bytes)) == frames


def test_chunks_have_the_requested_size() -> None:
    sent = chunks([b"header", bytes(100)], 10)
    assert [sum(map(len, chunk.frames)) for chunk in sent] == [10] * 10 + [6]
    assert {chunk.transfer for chunk in sent} == {3}
    assert [bool(chunk.sizes) for chunk in sent] == [True] + [False] * 10


def test_many_small_pieces_become_one() -> None:
    (chunk,) = chunks([b"header", *[b"x"] * PIECES_MOST], 1000)
    assert len(chunk.frames) == 1


def test_the_window_is_wider_without_a_network() -> None:
    assert window_at(Endpoint.parse("tcp://127.0.0.1:1")) == WINDOW_BYTES, "there may be a tunnel behind it"
    assert window_at(Endpoint.parse("ipc:///tmp/x"), 300_000) == 300_000 * WINDOWS_WITHOUT_NETWORK
    assert window_at(Endpoint.parse("inproc://x")) == WINDOW_BYTES * WINDOWS_WITHOUT_NETWORK


def test_an_arriving_transfer_takes_memory_only_for_received_bytes() -> None:
    tracemalloc.start()
    arrival = IncomingTransfer(Chunk(1, (2**60).to_bytes(8, "little"), ()))
    assert not arrival.add([memoryview(bytes(100_000))])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 400_000
    assert arrival.n_bytes == 100_000


@pytest.mark.parametrize("sizes", [b"", bytes(8 * (2**16 + 1))])
def test_a_transfer_without_a_header_or_with_too_many_frames_is_refused(sizes: bytes) -> None:
    with pytest.raises(ProtocolError, match="invalid table of sizes"):
        IncomingTransfer(Chunk(1, sizes, ()))


def test_more_bytes_than_announced_are_refused() -> None:
    arrival = IncomingTransfer(Chunk(1, (3).to_bytes(8, "little") + (2).to_bytes(8, "little"), ()))
    assert not arrival.add([b"head"])
    with pytest.raises(ProtocolError, match="more bytes"):
        arrival.add([b"xx"])


def test_only_the_header_of_a_transfer_too_large_for_the_memory_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    arrival = IncomingTransfer(Chunk(1, b"".join(size.to_bytes(8, "little") for size in (4, 6, 2)), ()))
    assert not arrival.add([b"head", b"xx"])

    def no_memory(_frames: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(arrival, "_keep", no_memory)
        assert not arrival.add([b"xxx"])
    assert arrival.has_lost_frames
    assert arrival.add([b"x", b"yy"])
    assert arrival.message() == (b"head", [b"", b""])
    with pytest.raises(ProtocolError, match="more bytes"):
        arrival.add([b"z"])


def test_a_header_that_is_too_large_for_the_memory_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(_frames: object) -> None:
        raise MemoryError

    arrival = IncomingTransfer(Chunk(1, (4).to_bytes(8, "little"), ()))
    monkeypatch.setattr(arrival, "_keep", no_memory)
    with pytest.raises(MemoryError):
        arrival.add([b"he"])
