"""Accounts: the number of each root client, which gets one share of the workers.

Written by the acceptor, as part of the directory, so it outlives the acceptor. Nested tasks have the account of their
root client at any depth, also after that client has left.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Accounts:
    """The open accounts. A new account has the lowest free number: a lone client has 0, which costs no byte.

    A closed number is not reused while there are clients inside tasks: their tasks may still have it, and as deeper
    tasks they would go before those of the new client.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._next = 0
        self._free: list[int] = []
        """closed ones, a heap"""
        self._inside: set[bytes] = set()
        """the clients inside tasks"""

    def __len__(self) -> int:
        return len(self._numbers)

    def open(self, client_id: bytes) -> int:
        """Return the number of a client's account; it stays the same until it is closed."""
        number = self._numbers.get(client_id)
        if number is None:
            if self._free:
                number = heappop(self._free)
            else:
                number = self._next
                self._next += 1
            self._numbers[client_id] = number
        return number

    def enter(self, client_id: bytes) -> None:
        """Add a client inside a task. It has no account of its own."""
        self._inside.add(client_id)

    def close(self, client_id: bytes) -> None:
        """Remove a client of either kind, if it is known."""
        self._inside.discard(client_id)
        number = self._numbers.pop(client_id, None)
        if number is not None and not self._inside:
            heappush(self._free, number)
