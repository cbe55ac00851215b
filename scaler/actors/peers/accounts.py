"""Accounts: the number of each root client, to which owner it belongs, and what it calls itself.

Written by the acceptor, as part of the directory, so it outlives the acceptor. Nested tasks have the account of their
root client at any depth, also after that client has left.
"""

from __future__ import annotations

from heapq import heappop, heappush

from scaler.actors.peers.owners import Owner


class Accounts:
    """The open accounts. A new account has the lowest free number: a lone client has 0, which costs no byte.

    Where clients take no turns, all those of one owner have one account, which is never closed.

    A closed number is not reused while there are clients inside tasks: their tasks may still have it, and as deeper
    tasks they would go before those of the new client.
    """

    def __init__(self, nobody: Owner, has_turns: bool = True) -> None:
        self._nobody = nobody
        self._has_turns = has_turns
        self._numbers: dict[bytes, int] = {}
        self._holders: dict[int, tuple[Owner, str]] = {}
        """of the taken numbers: whose they are, and the label of the client"""
        self._common: dict[Owner, int] = {}
        """if clients take no turns: the number of all clients of each owner"""
        self._taken: set[int] = set()
        """numbers that no new account may have"""
        self._next = 0
        """no number below is free, but for those that were closed"""
        self._closed: list[int] = []
        """a heap"""
        self._inside: set[bytes] = set()
        """the clients inside tasks"""

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, client_id: bytes) -> int:
        """Return the number of a client's account; 0 if it has none."""
        return self._numbers.get(client_id, 0)

    def owner_of(self, number: int) -> Owner:
        """Return the owner of an account; that of no account belongs to nobody."""
        return self._holders.get(number, (self._nobody, ""))[0]

    def label_of(self, number: int) -> str:
        """Return what the client with an account calls itself; empty if several have it, or nobody."""
        return self._holders.get(number, (self._nobody, ""))[1]

    def open(self, client_id: bytes, owner: Owner, last: int | None = None, label: str = "") -> int:
        """Return the number of a client's account; it stays the same until it is closed.

        Args:
            owner: to whom the client belongs.
            last: its number at the last scheduler. It has that again, if no other client has it: the children of its
                tasks that still run name it.
            label: what it calls itself.
        """
        number = self._numbers.get(client_id)
        if number is None:
            number = self._common.get(owner)
            if number is None:
                number = self._take(last)
                self._holders[number] = owner, label if self._has_turns else ""
            if not self._has_turns:
                self._common[owner] = number
            self._numbers[client_id] = number
        return number

    def _take(self, last: int | None) -> int:
        number = last if last is not None and last not in self._taken else self._lowest()
        self._taken.add(number)
        return number

    def _lowest(self) -> int:
        while self._closed:
            number = heappop(self._closed)
            if number not in self._taken:
                return number
        while self._next in self._taken:
            self._next += 1
        return self._next

    def is_inside(self, client_id: bytes) -> bool:
        """Return whether a client is inside a task."""
        return client_id in self._inside

    def enter(self, client_id: bytes) -> None:
        """Add a client inside a task. It has no account of its own."""
        self._inside.add(client_id)

    def close(self, client_id: bytes) -> None:
        """Remove a client of either kind, if it is known."""
        self._inside.discard(client_id)
        number = self._numbers.pop(client_id, None)
        if number is not None and self._has_turns and not self._inside:
            self._taken.discard(number)
            del self._holders[number]
            if number < self._next:
                heappush(self._closed, number)
