"""Accounts: the number of each client that is not inside a task, on whose share its work runs.

Written by the acceptor, as part of the directory, so that it outlives the acceptor. What a task submits is on the
account of the client that the task is for, however deep.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Accounts:
    """The open accounts. A new one has the lowest number that is free: a lone client has 0, which costs no byte."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._free: list[int] = []
        """closed ones, a heap"""

    def __len__(self) -> int:
        return len(self._numbers)

    def open(self, client_id: bytes) -> int:
        """Return the number of a client's account; it stays the same until it is closed."""
        number = self._numbers.get(client_id)
        if number is None:
            number = heappop(self._free) if self._free else len(self._numbers)
            self._numbers[client_id] = number
        return number

    def close(self, client_id: bytes) -> None:
        """Let another client have the number, if there is such an account."""
        number = self._numbers.pop(client_id, None)
        if number is not None:
            heappush(self._free, number)
