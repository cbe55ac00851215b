"""However a stream is cut, the same messages come out of it."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from scaler.pickling.serialization import OUT_OF_BAND_BYTES
from scaler.transport.framing import GREETING, LAZY_BYTES, ReceiveBuffer, pieces_of
from scaler.transport.interface import Message

SIZES = st.one_of(
    st.integers(0, 40), st.sampled_from([OUT_OF_BAND_BYTES - 1, OUT_OF_BAND_BYTES, OUT_OF_BAND_BYTES + 7, LAZY_BYTES])
)
FRAMES = st.builds(lambda size, byte: bytes([byte]) * size, SIZES, st.integers(0, 255))
MESSAGES = st.lists(st.tuples(FRAMES, st.lists(FRAMES, max_size=5)), max_size=6)


def taken(known: ReceiveBuffer, data: bytes) -> list[Message]:
    """Have bytes come as the system gives them: where there is room, or else to be taken."""
    messages: list[Message] = []
    while data:
        if not known.room:
            return [*messages, *known.take(data)]
        part = data[: len(known.room)]
        known.room[: len(part)] = part
        data = data[len(part) :]
        messages += known.filled(len(part))
    return messages


@given(MESSAGES, st.lists(st.one_of(st.integers(1, 30), st.integers(1, 100_000)), min_size=1, max_size=50))
def test_any_cut_of_a_stream_gives_the_same_messages(
    messages: list[tuple[bytes, list[bytes]]], cuts: list[int]
) -> None:
    stream = GREETING + b"".join(bytes(piece) for message in messages for piece in pieces_of(*message))
    known, found, number = ReceiveBuffer(10 * OUT_OF_BAND_BYTES, inf), [], 0
    while stream:
        cut = cuts[number % len(cuts)] if number < 1000 else len(stream)
        found += taken(known, stream[:cut])
        stream, number = stream[cut:], number + 1
    assert [(header, [bytes(frame) for frame in frames]) for header, frames in found] == messages
    assert not known.room
