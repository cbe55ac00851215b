"""The channel: messages between an agent and one processor, over a Unix stream socket.

A message is a header and frames, as everywhere. In the stream it is a prefix (bytes of the header, number of frames,
whether the frames are in shared memory), the size of each frame, the header, and the frames. More than
`INLINE_FRAMES_BYTES` of frames do not go through the stream: they lie in a block of shared memory whose descriptor
travels along, and the receiver maps it. Before its sizes is then its offset in that memory, counted as one of them.
The arguments of tasks, 1 MiB at a time and read once, do go through it: to make a block and to map it costs twice as
much, and their receiver may write to them.

The agent's end never blocks: what the socket does not take waits here. The processor's end blocks. Nothing here
decodes.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise, takewhile
from typing import Any

from scaler.shared_memory import INLINE_FRAMES_BYTES, Memory, SharedBlock, nbytes

_PREFIX = struct.Struct("<IIB")
_PREFIX_BYTES = _PREFIX.size
_FRAMES_MOST = 1 << 20
_READ_BYTES = 64 * 1024
_READS_MOST = 16  # of one call, so that one busy channel does not keep the others waiting
_BODY_BYTES_MOST = 4 * 1024 * 1024  # of a message for which memory is taken before all of it has come
_PARTS_MOST = 512  # of one system call
_ANCILLARY_BYTES = socket.CMSG_SPACE(16 * array.array("i").itemsize)

# Plain numbers: to combine the enumerations of `socket` costs more than to read.
_NOT_INHERITED, _CUT_SHORT = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0)), int(socket.MSG_CTRUNC)
"""Received descriptors are not inherited by child programs. On systems other than Linux `subprocess` closes them."""
_LOOK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)

LOST_EXIT_CODE = 71
"""of a processor that cannot take an object which its next task needs"""

ChannelMessage = tuple[bytes, list[memoryview]]
"""A header and its frames."""


class ChannelClosedError(ConnectionError):
    """The other end is gone, or it sent malformed bytes."""


class BlockLostError(ChannelClosedError):
    """What the other end gives cannot be taken, most often for want of memory or descriptors: a message is lost."""


def _head(header: bytes, sizes: Sequence[int], shared: bool) -> bytes:
    return b"".join((_PREFIX.pack(len(header), len(sizes), shared), struct.pack(f"<{len(sizes)}Q", *sizes), header))


def _mapped(block: SharedBlock, remember: bool) -> list[memoryview]:
    try:
        return block.map(remember)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BlockLostError(f"{sum(block.sizes):,} bytes cannot be mapped: {why}") from error


class _Reader:
    """Assembles messages from the bytes of the socket."""

    def __init__(self, connection: socket.socket, remembers_blocks: bool) -> None:
        self._socket = connection
        self._remembers_blocks = remembers_blocks
        self._rest: bytes | bytearray = b""
        self._body: _Body | None = None
        """what has come of a message of several reads, without anything behind it"""
        self._descriptors: deque[int] = deque()

    def pull(self) -> int:
        """Read once. Returns how many bytes there were to read.

        Raises:
            ChannelClosedError: at the end of the stream.
        """
        if self._body is not None:
            return self._body.pull(self._socket)
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES, _NOT_INHERITED)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
                self._descriptors.extend(descriptors)
        if not data:
            raise ChannelClosedError("the other end is closed")
        if flags & _CUT_SHORT:
            raise BlockLostError("descriptors were lost: too many are open")
        if not self._rest:
            self._rest = data
        else:
            if type(self._rest) is bytes:
                self._rest = bytearray(self._rest)
            self._rest += data
        return len(data)

    def messages(self) -> list[ChannelMessage]:
        """Take out the complete messages."""
        if self._body is not None:
            if self._body.is_missing:
                return []
            body, self._body = self._body, None
            return [body.message()]
        rest = self._rest
        if type(rest) is bytes and len(rest) >= _PREFIX_BYTES:
            header_bytes, n_frames, _ = _PREFIX.unpack_from(rest)
            if not n_frames and len(rest) == _PREFIX_BYTES + header_bytes:  # a single one, as most often
                self._rest = b""
                return [(rest[_PREFIX_BYTES:], [])]
        return list(self._several(rest))

    def _several(self, rest: bytes | bytearray) -> Iterator[ChannelMessage]:
        offset = 0
        view = memoryview(rest)
        try:
            while (message_end := self._end_of_message(view, offset)) is not None:
                yield self._take(view, offset, message_end)
                offset = message_end
        finally:
            view.release()
            if offset:  # what has come of a message stays where it is until all of it has come
                self._rest = rest[offset:]
        if self._rest:
            self._body = self._begun(memoryview(self._rest))
            self._rest = b"" if self._body else self._rest

    def _begun(self, view: memoryview) -> _Body | None:
        """Return the message that has come in part, if its frames come, too, and it is worth memory of its own."""
        if len(view) < _PREFIX.size:
            return None
        header_bytes, n_frames, shared = _PREFIX.unpack_from(view)
        start = _PREFIX.size + 8 * n_frames
        if shared or len(view) < start:
            return None
        sizes = (header_bytes, *struct.unpack_from(f"<{n_frames}Q", view, _PREFIX.size))
        return _Body(sizes, view[start:]) if _READ_BYTES < sum(sizes) <= _BODY_BYTES_MOST else None

    def _end_of_message(self, view: memoryview, offset: int) -> int | None:
        """Return where the message at `offset` ends, or None if that did not arrive yet."""
        if len(view) - offset < _PREFIX.size:
            return None
        header_bytes, n_frames, shared = _PREFIX.unpack_from(view, offset)
        if n_frames > _FRAMES_MOST:
            raise ChannelClosedError(f"a message with {n_frames} frames")
        end = offset + _PREFIX.size + 8 * n_frames
        if len(view) < end:
            return None
        if not shared and n_frames:
            end += sum(struct.unpack_from(f"<{n_frames}Q", view, end - 8 * n_frames))
        end += header_bytes
        return end if len(view) >= end else None

    def _take(self, view: memoryview, offset: int, end: int) -> ChannelMessage:
        header_bytes, n_frames, shared = _PREFIX.unpack_from(view, offset)
        start = offset + _PREFIX.size
        sizes = struct.unpack_from(f"<{n_frames}Q", view, start)
        start += 8 * n_frames
        header = bytes(view[start : start + header_bytes])
        if shared:
            if not self._descriptors:
                raise ChannelClosedError("a shared block did not arrive")
            if not sizes:
                raise ChannelClosedError("a shared block has no offset")
            block = SharedBlock(Memory(self._descriptors.popleft()), sizes[1:], sizes[0])
            return header, _mapped(block, self._remembers_blocks)
        start += header_bytes
        frames = []
        for size in sizes:
            frames.append(memoryview(bytes(view[start : start + size])))
            start += size
        assert start == end
        return header, frames

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popleft())


class _Body:
    """A message of several reads, which go where it stays. Its frames can be written to.

    Args:
        sizes: of the header and the frames.
        begin: what has come.
    """

    def __init__(self, sizes: Sequence[int], begin: memoryview) -> None:
        self._sizes = sizes
        self._bytes = bytearray(sum(sizes))
        self._bytes[: len(begin)] = begin
        self._view = memoryview(self._bytes)
        self._filled = len(begin)

    @property
    def is_missing(self) -> bool:
        """Whether something is still to come."""
        return self._filled < len(self._bytes)

    def pull(self, connection: socket.socket) -> int:
        """Read once, as the reader does."""
        try:
            n_bytes = connection.recv_into(self._view[self._filled :])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        if not n_bytes:
            raise ChannelClosedError("the other end is closed")
        self._filled += n_bytes
        return n_bytes

    def message(self) -> ChannelMessage:
        offsets = list(accumulate(self._sizes))
        return bytes(self._view[: offsets[0]]), [self._view[start:end] for start, end in pairwise(offsets)]


def _has_no_block(waiting: tuple[memoryview, SharedBlock | None]) -> bool:
    return waiting[1] is None


class Channel:
    """One end.

    Args:
        connection: a stream socket of the family AF_UNIX, blocking or not; it belongs to the channel from now on.
        remembers_blocks: whether the blocks of what it receives can be passed on: see `SharedBlock.map`.
    """

    def __init__(self, connection: socket.socket, remembers_blocks: bool = False) -> None:
        self._socket = connection
        self._reader = _Reader(connection, remembers_blocks)
        self._pending: deque[tuple[memoryview, SharedBlock | None]] = deque()
        self.descriptor = connection.fileno()

    def send(self, header: bytes, frames: Sequence[Any]) -> bool:
        """Send a message, its frames as it suits their size.

        Returns:
            whether all was written; if not (a non-blocking end), the rest waits for `flush`.

        Raises:
            ChannelClosedError: if the other end is gone.
        """
        if not frames:
            return self._write(_PREFIX.pack(len(header), 0, False) + header, None)
        sizes = [nbytes(frame) for frame in frames]
        if sum(sizes) > INLINE_FRAMES_BYTES:
            try:
                return self.send_block(header, SharedBlock.of(frames))
            except ConnectionError:
                raise
            except OSError:  # no descriptor left: slower, and it works
                pass
        return self._write_parts(_head(header, sizes, shared=False), frames)

    def send_in_stream(self, header: bytes, frames: Sequence[Any]) -> bool:
        """Send a message whose frames are of use once. Returns and raises as `send` does."""
        return self._write_parts(_head(header, [nbytes(frame) for frame in frames], shared=False), frames)

    def send_block(self, header: bytes, block: SharedBlock) -> bool:
        """Send a message whose frames are in shared memory already. Returns and raises as `send` does."""
        return self._write(_head(header, (block.offset, *block.sizes), shared=True), block)

    def _write_parts(self, head: bytes, frames: Sequence[Any]) -> bool:
        """Write without a copy of the frames, which must not change until they are written."""
        must_wait = bool(self._pending)
        self._pending.append((memoryview(head), None))
        self._pending.extend((memoryview(frame).cast("B"), None) for frame in frames if nbytes(frame))
        return not must_wait and self.flush()

    def _write(self, data: bytes, block: SharedBlock | None) -> bool:
        pending = self._pending
        if pending:
            pending.append((memoryview(data), block))
            return False
        written = self._send(data, block)
        if written == len(data):
            return True
        pending.append((memoryview(data)[written:], None if written else block))
        return written > 0 and self.flush()

    def _send(self, data: bytes | memoryview, block: SharedBlock | None, more: Sequence[memoryview] = ()) -> int:
        """Return how many bytes the socket has taken."""
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
        """Write the waiting bytes. Return whether none are left.

        Raises:
            ChannelClosedError: if the other end is gone.
        """
        pending = self._pending
        while pending:
            data, block = pending[0]
            rest = islice(pending, 1, _PARTS_MOST) if block is None else ()
            written = self._send(data, block, [part for part, _ in takewhile(_has_no_block, rest)])
            if not written:
                return False
            while pending and written >= len(pending[0][0]):
                written -= len(pending.popleft()[0])
            if written:
                pending[0] = pending[0][0][written:], None
        return True

    def receive(self) -> list[ChannelMessage]:
        """Return messages that have arrived; a blocking end waits until there is one.

        Of what has arrived some may be left for the next call, but not all: then the descriptor is still readable.

        Raises:
            ChannelClosedError: if the other end is gone, and everything that it had sent was returned before.
        """
        n_bytes = self._reader.pull()
        messages = self._reader.messages() if n_bytes else []
        if messages and n_bytes < _READ_BYTES:
            return messages  # probably it was all: to look again costs as much as to read
        return self._receive_on(messages, n_bytes)

    def _receive_on(self, messages: list[ChannelMessage], n_bytes: int) -> list[ChannelMessage]:
        """Go on to read: a message has come in part, or there is more than was read at once."""
        is_blocking = self._socket.gettimeout() is None
        for _ in range(_READS_MOST - 1):
            if not n_bytes or (messages and (is_blocking or n_bytes < _READ_BYTES)):
                break
            try:
                n_bytes = self._reader.pull()
            except ChannelClosedError:
                if messages:
                    break
                raise
            messages += self._reader.messages() if n_bytes else []
        return messages or self._wait()

    def has_come(self) -> bool:
        """Return whether there is anything to receive, also the end of the stream."""
        try:
            self._socket.recv(1, _LOOK)
        except BlockingIOError:
            return False
        except OSError:
            pass  # to receive finds that too
        return True

    def _wait(self) -> list[ChannelMessage]:
        messages: list[ChannelMessage] = []
        while not messages and self._socket.gettimeout() is None:
            self._reader.pull()
            messages.extend(self._reader.messages())
        return messages

    def close(self) -> None:
        self._pending.clear()
        self._reader.close()
        self._socket.close()
