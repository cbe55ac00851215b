"""Transfers: a message that is too large to travel in one piece is sent as chunks and assembled again.

Used by the pipe and its bulk lane. The bytes of an outgoing message are not copied, unless a chunk has more than
`PIECES_MOST` pieces. The bytes of an incoming message are copied once, as they arrive. Announced sizes take no memory.
A transfer that ends early ends with a chunk without bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import inf
from typing import Any

from scaler.endpoint import Endpoint
from scaler.errors import ProtocolError
from scaler.wire.messages.common import Chunk
from scaler.wire.session.streamed import StreamedFrames

WINDOW_BYTES = 1024 * 1024
"""The limit on unacknowledged bytes of large messages from one side."""
WINDOWS_WITHOUT_NETWORK = 16
"""The factor by which a window between processes of one machine is larger than a window between machines."""
PARTS_MOST = 1 << 16
"""The limit on the frames of a large message, its header included."""
PIECES_MOST = 16
"""The limit on the pieces of a chunk. If a chunk has more pieces, they are copied into one piece."""
_SIZE_BYTES = 8


def window_at(endpoint: Endpoint, window_bytes: int = WINDOW_BYTES) -> int:
    """Return the limit on unacknowledged bytes of large messages to a peer at an address.

    The limit is greater within one machine, where a transfer is fast compared with the wait until the peer reads.
    """
    return window_bytes * (WINDOWS_WITHOUT_NETWORK if endpoint.is_in_machine else 1)


class OutgoingTransfer:
    """A large message that is being sent, as transfer `number` of its session and direction."""

    def __init__(self, number: int, frames: Sequence[Any]) -> None:
        self._number = number
        self._parts = [memoryview(frame).cast("B") if memoryview(frame).nbytes else memoryview(b"") for frame in frames]
        self._sizes = struct.pack(f"<{len(frames)}Q", *map(len, self._parts))
        self._part = self._offset = 0
        self.left_bytes = sum(map(len, self._parts))

    @property
    def bytes_in_memory(self) -> int:
        """The unsent bytes that take memory in this process."""
        return self.left_bytes

    def next(self, most_bytes: int) -> Chunk | None:
        """Return the next chunk, of at most `most_bytes`."""
        pieces: list[Any] = []
        room = min(most_bytes, self.left_bytes)
        self.left_bytes -= room
        while room:
            part = self._parts[self._part]
            piece = part[self._offset : self._offset + room]
            if len(piece):
                pieces.append(piece)
            room -= len(piece)
            self._offset += len(piece)
            if self._offset == len(part):
                self._part, self._offset = self._part + 1, 0
        if len(pieces) > PIECES_MOST:
            pieces = [b"".join(pieces)]
        sizes, self._sizes = self._sizes, b""
        return Chunk(self._number, sizes, tuple(pieces))


class StreamedTransfer:
    """A large message that is being sent while its value arrives."""

    bytes_in_memory = 0

    def __init__(self, number: int, header: bytes, frames: StreamedFrames) -> None:
        self._number = number
        self._header = header
        self._frames = frames
        self.left_bytes = len(header) + frames.stream.n_bytes

    def next(self, most_bytes: int) -> Chunk | None:
        """Return the next chunk: first the header, then at most `most_bytes`; None if no further bytes have arrived."""
        if self._header:
            header, self._header = self._header, b""
            sizes = struct.pack(f"<{1 + len(self._frames)}Q", len(header), *self._frames.stream.sizes)
            self.left_bytes -= len(header)
            return Chunk(self._number, sizes, (header,))
        if self._frames.ends_early:
            self.left_bytes = 0
            return Chunk(self._number, b"", ())
        piece = self._frames.take(most_bytes)
        if piece is None:
            return None
        self.left_bytes -= len(piece)
        return Chunk(self._number, b"", (piece,))


class IncomingTransfer:
    """A large message that is being received.

    Args:
        chunk: the first chunk.
        most_bytes: the most bytes of the message. If the message is larger, only its header is kept.

    Raises:
        ProtocolError: if the chunk does not give valid sizes of the frames.
    """

    def __init__(self, chunk: Chunk, most_bytes: float = inf) -> None:
        n_parts = len(chunk.sizes) // _SIZE_BYTES
        if not 0 < n_parts <= PARTS_MOST:
            raise ProtocolError(f"a large message has an invalid table of sizes ({len(chunk.sizes)} bytes)")
        self.number = chunk.transfer
        self._sizes = struct.unpack(f"<{n_parts}Q", chunk.sizes)
        self._parts: list[bytearray] = [bytearray()]
        self.n_bytes = 0
        self.has_lost_frames = n_parts > 1 and self.announced_bytes > most_bytes
        """whether all frames after the header were dropped, for lack of memory"""

    @property
    def announced_bytes(self) -> int:
        """The bytes of all frames, as announced by the first chunk."""
        return sum(self._sizes)

    def add(self, frames: Sequence[Any]) -> bool:
        """Add the bytes of a chunk. Return whether the message is complete.

        If there is no memory for these bytes, only the header is kept, and further bytes are only counted.

        Raises:
            MemoryError: if there is no memory for the header.
            ProtocolError: if there are more bytes than announced.
        """
        self.n_bytes += sum(memoryview(frame).nbytes for frame in frames)
        if self.n_bytes > self.announced_bytes:
            raise ProtocolError("a large message has more bytes than announced")
        if not (self.has_lost_frames and len(self._parts[0]) == self._sizes[0]):
            try:
                self._keep(frames)
            except MemoryError:
                if len(self._parts) == 1:
                    raise
                del self._parts[1:]
                self.has_lost_frames = True
        return self.n_bytes == self.announced_bytes

    def _keep(self, frames: Sequence[Any]) -> None:
        sizes, parts = self._sizes, self._parts
        for frame in frames:
            rest = memoryview(frame)
            while True:
                part, size = parts[-1], sizes[len(parts) - 1]
                if len(part) == size and len(parts) < len(sizes) and not self.has_lost_frames:
                    parts.append(bytearray())
                    continue
                if not rest or len(part) == size:
                    break
                piece = rest[: size - len(part)]
                part += piece
                rest = rest[len(piece) :]

    def message(self) -> tuple[bytes, list[memoryview]]:
        """Return the header and the payload frames of the complete message. Each lost frame is returned empty."""
        header, *frames = self._parts
        if self.has_lost_frames:
            frames = [bytearray()] * (len(self._sizes) - 1)
        return bytes(header), [memoryview(frame) for frame in frames]
