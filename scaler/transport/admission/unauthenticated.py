"""UnauthenticatedPeers: the connections whose first message was not read yet, with limits on what they may use.

A listening socket with keys has one `UnauthenticatedPeers`. A peer is authenticated when its first message has been
read. ZeroMQ itself ends a handshake that takes too long. Checking connections costs nothing per message.
"""

from __future__ import annotations

import contextlib
import os
import socket as unix
from collections import Counter
from collections.abc import Callable

from scaler.transport.unread import IS_SUPPORTED, received_bytes

BYTES_MOST = 16 * 1024 * 1024
"""The limit on the bytes from an unauthenticated connection. Handshake and hello take 700 bytes to 8 MiB."""
FROM_ONE_ADDRESS_MOST = 1024
"""The limit on unauthenticated connections of one address. A host needs one connection for each client and cluster."""


class UnauthenticatedPeers:
    """The unauthenticated connections of one socket."""

    def __init__(self) -> None:
        self._addresses: dict[int, str | None] = {}
        """the address of each connection, by descriptor, newest last; None if the address is not known yet"""

    def __len__(self) -> int:
        return len(self._addresses)

    def open(self, descriptor: int) -> None:
        """Add a new connection."""
        # The end of an old connection may be reported after the start of a new one with its descriptor.
        self.close(descriptor)
        self._addresses[descriptor] = None

    def close(self, descriptor: int) -> None:
        """Remove a connection that has ended or is authenticated."""
        self._addresses.pop(descriptor, None)

    def over(self, has_authenticated: Callable[[int], bool]) -> list[int]:
        """Return the descriptors of the connections that exceed a limit.

        A connection exceeds a limit if it has sent too many bytes. If an address has too many connections, the newest
        exceed the limit.

        Args:
            has_authenticated: returns whether a message of a connection was read. A message may be read before the
                start of its connection is reported.
        """
        for descriptor in [each for each in self._addresses if has_authenticated(each)]:
            self.close(descriptor)
        over = [each for each in self._addresses if IS_SUPPORTED and (received_bytes(each) or 0) > BYTES_MOST]
        if len(self) > FROM_ONE_ADDRESS_MOST:
            over += self._too_many()
        return list(dict.fromkeys(over))

    def _too_many(self) -> list[int]:
        counts: Counter[str] = Counter()
        too_many = []
        for descriptor, known in self._addresses.items():
            address = self._addresses[descriptor] = known or _address_of(descriptor)
            counts[address] += 1
            if counts[address] > FROM_ONE_ADDRESS_MOST:
                too_many.append(descriptor)
        return too_many


def _address_of(descriptor: int) -> str:
    with contextlib.suppress(OSError), unix.socket(fileno=os.dup(descriptor)) as copy:
        return str(copy.getpeername()[0])
    return ""  # it was closed just now
