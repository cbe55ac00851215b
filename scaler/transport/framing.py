"""Framing: turns messages into the bytes of a stream, and such bytes, in pieces of any size, into messages.

Each direction of a connection begins with `GREETING`, except for the channels of processors. A message consists of the
number of its frames, the size of each frame, and the frames. The header is the first frame. The number and each size
take 4 bytes (little-endian).

Frames of at least `WRITTEN_ALONE_BYTES` are sent without a copy. If such a frame has arrived in part, its rest is read
into memory of its own. Smaller frames are copied, so that no small frame keeps the memory of a whole message.

Used by the streams, and by the channel of a processor. A peer that only announces data takes no memory.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

from scaler.pickling.serialization import OUT_OF_BAND_BYTES
from scaler.shared_memory import nbytes
from scaler.transport.interface import Message

GREETING = b"scaler stream 1\n"
"""The first bytes of each direction of a connection. Only a Scaler peer of this version sends these bytes."""
FRAMES_MOST = 1 << 16
"""The limit on the number of frames in a message. More frames are an error."""
WRITTEN_ALONE_BYTES = 8 * 1024
"""The size from which a frame is sent as a piece of its own. Smaller frames are copied, because that costs less."""
LAZY_BYTES = 256 * 1024
"""The size from which the memory for an arriving frame is allocated page by page, as its bytes arrive."""

Buffer: TypeAlias = bytes | bytearray | memoryview

_NOWHERE = memoryview(bytearray())
_COUNT, _LONE = struct.Struct("<I"), struct.Struct("<II")


class GarbledError(ValueError):
    """Error for received bytes that are not a message. Later bytes of the connection cannot be read either."""


def pieces_of(header: bytes, frames: Sequence[Any]) -> list[Any]:
    """Return a message as pieces: small frames are joined, large frames stay alone.

    Args:
        frames: objects with a contiguous buffer. Large frames must not change until they are written.
    """
    if not frames and len(header) < WRITTEN_ALONE_BYTES:
        return [_LONE.pack(1, len(header)) + header]
    parts = [header, *frames]
    sizes = [nbytes(part) for part in parts]
    pieces: list[Any] = []
    small: list[Any] = [struct.pack(f"<{1 + len(sizes)}I", len(sizes), *sizes)]
    for part, size in zip(parts, sizes, strict=True):
        if size < WRITTEN_ALONE_BYTES:
            small.append(part)
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(memoryview(part).cast("B"))
    if small:
        pieces.append(b"".join(small))
    return pieces


def drop_bytes(pieces: deque[Any], n_bytes: int) -> None:
    """Remove the first `n_bytes` of consecutive pieces."""
    while pieces and n_bytes >= len(pieces[0]):
        n_bytes -= len(pieces.popleft())
    if n_bytes:
        pieces[0] = memoryview(pieces[0])[n_bytes:]


class ReceiveBuffer:
    """The received bytes of one direction of a connection that are not a whole message yet.

    Args:
        is_greeted: whether the first bytes to come are a message and not a greeting.
    """

    def __init__(self, frame_bytes: int, message_bytes: float, *, is_greeted: bool = False) -> None:
        self._frame_bytes, self._message_bytes = frame_bytes, message_bytes
        self._rest = bytearray()
        """the received part of a greeting, of the sizes of a message, or of a small frame"""
        self._is_greeted = is_greeted
        self._sizes: tuple[int, ...] = ()
        self._frames: list[Any] = []
        self._area: Any = None
        """the memory of a large frame that is arriving"""
        self.room = _NOWHERE
        """memory for the next bytes. Unless it is empty, read into it, and call `filled`; otherwise call `take`"""

    def filled(self, n_bytes: int) -> list[Message]:
        """Record that `n_bytes` have been read into `room`. Return the messages that are complete now, at most one."""
        self.room = self.room[n_bytes:]
        if self.room:
            return []
        self._frames.append(memoryview(self._area))
        self._area, self.room = None, _NOWHERE
        return self.take(b"")

    def take(self, data: Buffer) -> list[Message]:
        """Return the messages that `data` completes. The messages share no memory with `data`.

        Raises:
            GarbledError: if the bytes are not the next part of a message.
        """
        known = data
        if self._rest:
            self._rest += data
            known = memoryview(self._rest)
        at = 0 if self._is_greeted else self._greet(known)
        messages: list[Message] = []
        while self._is_greeted:
            if not self._sizes:
                if len(known) - at >= _LONE.size:
                    count, size = _LONE.unpack_from(known, at)
                    end = at + _LONE.size + size
                    if count == 1 and size < WRITTEN_ALONE_BYTES and end <= len(known):  # the most frequent case
                        messages.append((bytes(known[at + _LONE.size : end]), []))
                        at = end
                        continue
                self._sizes = self._sizes_at(known, at)
                if not self._sizes:
                    break
                at += 4 + 4 * len(self._sizes)
            at = self._cut(known, at)
            if len(self._frames) < len(self._sizes):
                break
            header, *frames = self._frames
            messages.append((bytes(header), frames))
            self._sizes, self._frames = (), []
        if at or known is data:
            self._rest = bytearray(known[at:])
        return messages

    def _greet(self, known: Buffer) -> int:
        """Check the greeting. Return the offset of the first message, or 0 if the greeting is not complete."""
        if known[: len(GREETING)] != GREETING[: len(known)]:
            raise GarbledError
        self._is_greeted = len(known) >= len(GREETING)
        return len(GREETING) if self._is_greeted else 0

    def _sizes_at(self, known: Buffer, at: int) -> tuple[int, ...]:
        """Return the sizes of the frames of the message at an offset; empty if not all sizes have arrived."""
        if len(known) - at < 4:
            return ()
        count = _COUNT.unpack_from(known, at)[0]
        if not 0 < count <= FRAMES_MOST:
            raise GarbledError
        if len(known) - at < 4 + 4 * count:
            return ()
        sizes = struct.unpack_from(f"<{count}I", known, at + 4)
        if max(sizes) > self._frame_bytes or sum(sizes) > self._message_bytes:
            raise GarbledError
        return sizes

    def _cut(self, known: Buffer, at: int) -> int:
        """Cut complete frames, from offset `at` on, until the message is complete. Return the offset of the rest."""
        sizes, frames = self._sizes, self._frames
        while len(frames) < len(sizes):
            size, left = sizes[len(frames)], len(known) - at
            if size > left:
                if size >= (WRITTEN_ALONE_BYTES if left else OUT_OF_BAND_BYTES):
                    self._area = new_area(size)
                    self._area[:left] = known[at:]
                    self.room = memoryview(self._area)[left:]
                    at += left
                break
            part = known[at : at + size]
            frames.append(memoryview(bytearray(part)) if frames else bytes(part))
            at += size
        return at


def new_area(n_bytes: int) -> Any:
    """Return writable memory. The system allocates each page of a large area when the page is first written."""
    if n_bytes < LAZY_BYTES:
        return bytearray(n_bytes)
    return mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
