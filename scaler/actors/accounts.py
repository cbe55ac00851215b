"""Accounts: the number of each client that is not inside a task, on whose share its work runs.

Written by the acceptor, as part of the directory, so that it outlives the acceptor. What a task submits is on the
account of the client that the task is for, however deep, and goes on there when that client has left.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Accounts:
    """The open accounts. A new one has the lowest number that is free: a lone client has 0, which costs no byte.

    A number that was closed while there are clients inside tasks is not given again: their tasks may still be on it,
    and would come before those of the next client, since they are deeper.
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
        """There is a client inside a task. It has no account, and names those of others."""
        self._inside.add(client_id)

    def close(self, client_id: bytes) -> None:
        """A client has left, of either kind, or none that is known."""
        self._inside.discard(client_id)
        number = self._numbers.pop(client_id, None)
        if number is not None and not self._inside:
            heappush(self._free, number)
