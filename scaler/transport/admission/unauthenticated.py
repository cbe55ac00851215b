"""UnauthenticatedPeers: the connections of which nothing was read yet, so that who has no key costs no more than he must.

One for each listening socket with keys. It hears of each connection; with its first message, it has proved who it is.
ZeroMQ itself ends a handshake that takes too long. Must never: cost anything for a message.
"""

from __future__ import annotations

import contextlib
import os
import socket as unix
from collections import Counter
from collections.abc import Callable

from scaler.transport.unread import IS_POSSIBLE, received_bytes

BYTES_MOST = 16 * 1024 * 1024
"""More than this is no handshake with a hello behind it: these have 700 bytes, and 8 MiB at the most."""
FROM_ONE_ADDRESS_MOST = 1024
"""So many connections of one address may be at it at once; a host has one for each client and cluster."""


class UnauthenticatedPeers:
    """Those of one socket."""

    def __init__(self) -> None:
        self._addresses: dict[int, str | None] = {}
        """by descriptor, the last one at the end; None: nobody has asked for it yet"""

    def __len__(self) -> int:
        return len(self._addresses)

    def open(self, descriptor: int) -> None:
        """A connection has begun."""
        self.close(descriptor)  # the news of its end may come later than a new one with its descriptor
        self._addresses[descriptor] = None

    def close(self, descriptor: int) -> None:
        """A connection has ended, or has spoken."""
        self._addresses.pop(descriptor, None)

    def over(self, has_spoken: Callable[[int], bool]) -> list[int]:
        """Return the connections that have said too much, and the last ones of an address that has too many.

        Args:
            has_spoken: says whether a message of a connection was read, maybe before the news of its begin.
        """
        for descriptor in [each for each in self._addresses if has_spoken(each)]:
            self.close(descriptor)
        over = [each for each in self._addresses if IS_POSSIBLE and (received_bytes(each) or 0) > BYTES_MOST]
        if len(self) > FROM_ONE_ADDRESS_MOST:
            over += self._too_many()
        return list(dict.fromkeys(over))

    def _too_many(self) -> list[int]:
        """Return those that have come when others of their address were as many as may be."""
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
