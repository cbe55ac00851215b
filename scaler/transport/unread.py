"""Unread: finds connections that send far more than is read, and would fill the memory of this process.

Used by the scheduler's socket, on TCP and Linux, instead of a limit on the number of unread messages. That limit would
not hold back an endless message. And libzmq 4.3.5 aborts this process (`!_io_error`) if a peer sends a PING, is held
back and resets its connection. So libzmq reads everything, and this module asks the system how much has arrived.

The check costs nothing while the memory of the process does not grow.
"""

from __future__ import annotations

import os
import socket as unix
import sys
from collections.abc import Iterator

GROWN_BYTES = 64 * 1024 * 1024
"""When the memory of the process has grown by this many bytes, all connections are checked."""
CALM_BYTES = 1024 * 1024
"""Checking stops when every connection has fewer unread bytes than this."""
FRAME_COST_BYTES = 96
"""The memory that libzmq needs for each frame in addition to the content of the frame."""
SHORT_BYTES, SHORT_HEAD_BYTES, LONG_HEAD_BYTES = 255, 2, 9
"""The most content of a frame with a short head on the network, and the sizes of short and long heads, in bytes."""

_TCP_INFO = getattr(unix, "TCP_INFO", None)
_RECEIVED_AT = 128
"""the offset of `tcpi_bytes_received` in the `tcp_info` of Linux (4.1 and later)"""

IS_SUPPORTED = sys.platform == "linux" and _TCP_INFO is not None


def received_bytes(descriptor: int) -> int | None:
    """Return how many bytes a TCP connection has received so far; None if the system does not report it."""
    try:
        with unix.socket(unix.AF_INET, unix.SOCK_STREAM, 0, fileno=os.dup(descriptor)) as copy:
            info = copy.getsockopt(unix.IPPROTO_TCP, _TCP_INFO or 0, _RECEIVED_AT + 8)
    except OSError:  # it was closed just now
        return None
    return int.from_bytes(info[_RECEIVED_AT:], sys.byteorder) if len(info) == _RECEIVED_AT + 8 else None


def size_on_its_way(n_bytes: int) -> int:
    """Return how many bytes a frame with `n_bytes` of content takes on the network."""
    return n_bytes + (SHORT_HEAD_BYTES if n_bytes <= SHORT_BYTES else LONG_HEAD_BYTES)


class _Count:
    """The bytes that one connection has received and the bytes that were read, since checking started."""

    __slots__ = ("frames", "n_bytes", "received_before")

    def __init__(self, received_before: int) -> None:
        self.received_before = received_before
        self.n_bytes = self.frames = 0

    def unread(self, received: int) -> int:
        """Estimate the memory of the unread bytes. Unread frames are assumed to be as large as the read ones."""
        unread = received - self.received_before - self.n_bytes
        return unread + unread * FRAME_COST_BYTES * self.frames // self.n_bytes if self.n_bytes else unread


class Unread:
    """Counts the unread bytes of each connection of a socket, by descriptor. `most_bytes` is the limit for each."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._descriptors: set[int] = set()
        self.counts: dict[int, _Count] = {}
        """the counts of each connection, by descriptor; while empty, callers need not call `read`"""
        self._baseline_bytes = 0
        """the least memory of the process since the last check; growth is measured from this value"""

    def open(self, descriptor: int) -> None:
        """Add a new connection."""
        self._descriptors.add(descriptor)
        if self.counts:
            self.counts[descriptor] = _Count(0)

    def close(self, descriptor: int) -> None:
        """Remove an ended connection."""
        self._descriptors.discard(descriptor)
        self.counts.pop(descriptor, None)

    def read(self, descriptor: int, sizes: Iterator[int]) -> None:
        """Add the frames of a message that was read to the counts of its connection."""
        count = self.counts.get(descriptor)
        if count is not None:
            for size in sizes:
                count.n_bytes += size_on_its_way(size)
                count.frames += 1

    def look(self, resident_bytes: int) -> list[int]:
        """Return the descriptors of connections with far too many unread bytes.

        Args:
            resident_bytes: the memory of this process; 0 if unknown.
        """
        if self.counts:
            return self._compare(resident_bytes)
        if not self._baseline_bytes or resident_bytes < self._baseline_bytes:
            self._baseline_bytes = resident_bytes
        elif resident_bytes > self._baseline_bytes + GROWN_BYTES:
            received = ((descriptor, received_bytes(descriptor)) for descriptor in self._descriptors)
            self.counts = {descriptor: _Count(n_bytes) for descriptor, n_bytes in received if n_bytes is not None}
        return []

    def _compare(self, resident_bytes: int) -> list[int]:
        over, greatest = [], 0
        for descriptor, count in self.counts.items():
            received = received_bytes(descriptor)
            unread = 0 if received is None else count.unread(received)
            greatest = max(greatest, unread)
            if unread > self._most_bytes:
                over.append(descriptor)
        if greatest < CALM_BYTES:
            self.counts, self._baseline_bytes = {}, resident_bytes
        return over
