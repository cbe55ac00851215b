"""The channel: messages between an agent and one processor, over a Unix stream socket.

Messages have the format of all streams (`scaler.transport.framing`), without a greeting. If the frames of a message
have more than `INLINE_FRAMES_BYTES` together, they are sent in a block of shared memory, whose descriptor is sent with
the message. Such a message has an empty header and two frames: the header that it would have in the stream, and the
place of its frames in the block. Arguments of tasks, up to 1 MiB, are sent in the stream: a block would cost twice as
much, and the receiver must be able to write to arguments.

The agent's end never blocks: what the socket does not accept waits in the channel. The processor's end blocks.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from itertools import islice, takewhile
from math import inf
from typing import Any

from scaler.shared_memory import INLINE_FRAMES_BYTES, Memory, SharedBlock, nbytes
from scaler.transport.framing import GarbledError, ReceiveBuffer, pieces_of
from scaler.transport.interface import Message

_FRAME_BYTES_MOST = (1 << 32) - 1
_READ_BYTES = 64 * 1024
_READS_MOST = 16  # per call, so that one busy channel does not delay the others
_PIECES_MOST = 512  # per system call
_ANCILLARY_BYTES = socket.CMSG_SPACE(16 * array.array("i").itemsize)

# Plain numbers: combining the enumerations of `socket` takes longer than reading.
_NOT_INHERITED, _TRUNCATED = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0)), int(socket.MSG_CTRUNC)
"""Flags of `recvmsg`. Passed to the call, the first keeps child programs from inheriting received descriptors (Linux
only). Returned by the call, the second says that some descriptors were dropped.
"""
_PEEK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)

LOST_EXIT_CODE = 71
"""the exit code of a processor that cannot receive an object that its next task needs"""


class ChannelClosedError(ConnectionError):
    """The other end has closed the channel or sent malformed bytes."""


class BlockLostError(ChannelClosedError):
    """A received message is lost because its block cannot be mapped, most often for lack of memory or descriptors."""


def _has_no_block(waiting: tuple[Any, SharedBlock | None]) -> bool:
    return waiting[1] is None


class Channel:
    """One end of a channel, which owns its socket.

    Args:
        remembers_blocks: whether received frames can be forwarded in the same block: see `SharedBlock.map`.
    """

    def __init__(self, connection: socket.socket, remembers_blocks: bool = False) -> None:
        self._socket = connection
        self._remembers_blocks = remembers_blocks
        self._inflow = ReceiveBuffer(_FRAME_BYTES_MOST, inf, is_greeted=True)
        self._descriptors: deque[int] = deque()
        """descriptors of received blocks whose messages are not complete yet"""
        self._error: ChannelClosedError | None = None
        """why nothing further can be received; raised after all earlier messages were returned"""
        self._pending: deque[tuple[Any, SharedBlock | None]] = deque()
        self.descriptor = connection.fileno()

    # Out

    def send(self, header: bytes, frames: Sequence[Any]) -> bool:
        """Send a message, with its frames in the stream or in a block, depending on their size.

        Returns:
            whether the whole message was written. If a non-blocking end returns False, `flush` writes the rest.

        Raises:
            ChannelClosedError: if the other end has closed the channel.
        """
        if frames and sum(map(nbytes, frames)) > INLINE_FRAMES_BYTES:
            try:
                return self.send_block(header, SharedBlock.of(frames))
            except ConnectionError:
                raise
            except OSError:  # no descriptor left: slower, and it works
                if max(map(nbytes, frames)) > _FRAME_BYTES_MOST:
                    raise
        return self._write(pieces_of(header, frames), None)

    def send_in_stream(self, header: bytes, frames: Sequence[Any]) -> bool:
        """Send all frames in the stream; the frames must not change until written. Returns and raises as `send`."""
        return self._write(pieces_of(header, frames), None)

    def send_block(self, header: bytes, block: SharedBlock) -> bool:
        """Send a message whose frames are in shared memory already. Returns and raises as `send`."""
        place = struct.pack(f"<{1 + len(block.sizes)}Q", block.offset, *block.sizes)
        return self._write(pieces_of(b"", (header, place)), block)

    def _write(self, pieces: list[Any], block: SharedBlock | None) -> bool:
        pending = self._pending
        must_wait = bool(pending)
        if len(pieces) == 1 and not must_wait:  # as most often
            written = self._send(pieces[0], block)
            if written == len(pieces[0]):
                return True
            must_wait = not written
            if written:
                pieces, block = [memoryview(pieces[0])[written:]], None
        pending.append((pieces[0], block))
        pending.extend((piece, None) for piece in pieces[1:])
        return not must_wait and self.flush()

    def _send(self, data: Any, block: SharedBlock | None, more: Sequence[Any] = ()) -> int:
        """Write data to the socket. Return how many bytes the socket has accepted."""
        try:
            if more:
                return self._socket.sendmsg([data, *more])
            if block is None:
                return self._socket.send(data)
            return socket.send_fds(self._socket, [data], [block.memory.descriptor])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def flush(self) -> bool:
        """Write the bytes that wait in this channel. Return whether all were written. Raises as `send`."""
        pending = self._pending
        while pending:
            data, block = pending[0]
            more: Sequence[Any] = ()
            if block is None and len(pending) > 1:
                more = [piece for piece, _ in takewhile(_has_no_block, islice(pending, 1, _PIECES_MOST))]
            written = self._send(data, block, more)
            if not written:
                return False
            while pending and written >= len(pending[0][0]):
                written -= len(pending.popleft()[0])
            if written:
                pending[0] = memoryview(pending[0][0])[written:], None
        return True

    # In

    def receive(self) -> list[Message]:
        """Return messages that have arrived; more may remain. A blocking end waits for the first message.

        Raises:
            ChannelClosedError: if the other end has closed the channel, and all messages that it sent were returned.
        """
        messages: list[Message] = []
        n_bytes = self._read(messages)
        if messages and n_bytes < _READ_BYTES:
            return messages  # probably all: another check would cost as much as a read
        is_blocking = self._socket.gettimeout() is None
        reads_left = _READS_MOST
        while n_bytes and not (messages and (is_blocking or n_bytes < _READ_BYTES)) and (is_blocking or reads_left > 1):
            reads_left -= 1
            n_bytes = self._read(messages)
        return messages

    def _read(self, messages: list[Message]) -> int:
        """Read from the socket once, and append the complete messages to `messages`. Return the number of bytes read.

        If the read fails and `messages` is empty, the error is raised. If `messages` has messages, 0 is returned, and
        the next call raises the error.
        """
        try:
            if self._error is not None:
                raise self._error
            n_bytes, complete = self._read_once()
            messages.extend(map(self._opened, complete))
        except ChannelClosedError as error:
            self._error = error
            if not messages:
                raise
            return 0
        return n_bytes

    def _read_once(self) -> tuple[int, list[Message]]:
        """Read from the socket once. Return the number of bytes read, and the messages that are complete now."""
        inflow, data = self._inflow, b""
        try:
            if inflow.room:
                n_bytes = self._socket.recv_into(inflow.room)
            else:
                data, ancillary, flags, _ = self._socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES, _NOT_INHERITED)
                n_bytes = len(data)
                if ancillary:
                    self._take_descriptors(ancillary)
                if flags & _TRUNCATED:
                    raise BlockLostError("descriptors were dropped: too many are open")
        except BlockingIOError:
            return 0, []
        except ChannelClosedError:
            raise
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        if not n_bytes:
            raise ChannelClosedError("the other end is closed")
        try:
            return n_bytes, inflow.take(data) if data else inflow.filled(n_bytes)
        except GarbledError:
            raise ChannelClosedError("the received bytes are not a message") from None

    def _take_descriptors(self, ancillary: Sequence[tuple[int, int, bytes]]) -> None:
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
                self._descriptors.extend(descriptors)

    def _opened(self, message: Message) -> Message:
        """Return a received message in the form in which it was sent. Map its frames if they are in shared memory."""
        header, parts = message
        if header:
            return message
        if len(parts) != 2 or not parts[1] or len(parts[1]) % 8 or not self._descriptors:
            raise ChannelClosedError("a shared block did not arrive")
        offset, *sizes = struct.unpack(f"<{len(parts[1]) // 8}Q", parts[1])
        block = SharedBlock(Memory(self._descriptors.popleft()), sizes, offset)
        try:
            return bytes(parts[0]), block.map(self._remembers_blocks)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise BlockLostError(f"{sum(sizes):,} bytes cannot be mapped: {why}") from error

    def has_input(self) -> bool:
        """Return whether `receive` would return or raise without waiting."""
        try:
            self._socket.recv(1, _PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass  # `receive` raises it
        return True

    def close(self) -> None:
        self._pending.clear()
        while self._descriptors:
            os.close(self._descriptors.popleft())
        self._socket.close()
