"""Accounts: the number of each root client among the clients of its owner, and the label of each root client.

The acceptor opens accounts, and the directory closes them. An account is a pair: the owner, and a number
(`scaler.wire.messages.accounts`). Nested tasks have the account of their root client at any depth, also after that
client has left, and at the next scheduler. A client never gets an account of another owner, whatever its hello claims.
"""

from __future__ import annotations

from heapq import heappop, heappush

from scaler.actors.vocabulary.owners import Owner, Owners
from scaler.wire.messages.accounts import account_of, number_of, owner_of


class _Numbers:
    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._next = 0
        """all numbers below this number are taken, or are in `_closed`"""
        self._closed: list[int] = []
        """a heap of the numbers that were freed and may be taken again"""

    def take(self, last: int | None) -> int:
        """Take a number for a new account: `last` if that is free, else the lowest free number."""
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

    def free(self, number: int) -> None:
        self._taken.discard(number)
        if number < self._next:
            heappush(self._closed, number)


class Accounts:
    """The open accounts. A new account has its owner's lowest free number, or 0 if clients have no turns (`fifo`).

    A closed number is not reused while clients inside tasks are connected. Their tasks may still have the number and,
    being deeper, would precede the tasks of the new client.
    """

    def __init__(self, owners: Owners, has_turns: bool = True) -> None:
        self._owners = owners
        self._has_turns = has_turns
        self._accounts: dict[bytes, int] = {}
        self._labels: dict[int, str] = {}
        self._numbers: dict[int, _Numbers] = {}
        self._inside: set[bytes] = set()
        """the ids of the clients inside tasks"""

    def __len__(self) -> int:
        return len(self._accounts)

    def of(self, client_id: bytes) -> int:
        """Return the account of a client; 0 if the client has no account."""
        return self._accounts.get(client_id, 0)

    def owner_of(self, account: int) -> Owner:
        """Return the owner of an account."""
        return self._owners.tagged(owner_of(account))

    def label_of(self, account: int) -> str:
        """Return the label of an account's client; empty if no client, or more than one, has the account."""
        return self._labels.get(account, "")

    def open(self, client_id: bytes, owner: Owner, last: int | None = None, label: str = "") -> int:
        """Return the account of a client. A new account is opened if the client has none.

        Args:
            last: the client's number at the last scheduler, used again if free, because nested tasks still name it.
        """
        account = self._accounts.get(client_id)
        if account is None:
            number = self._numbers.setdefault(owner.tag, _Numbers()).take(last) if self._has_turns else 0
            account = self._accounts[client_id] = account_of(owner.tag, number)
            if self._has_turns:
                self._labels[account] = label
        return account

    def is_inside(self, client_id: bytes) -> bool:
        """Return whether a client is inside a task."""
        return client_id in self._inside

    def enter(self, client_id: bytes) -> None:
        """Add a client inside a task. Such a client has no account of its own."""
        self._inside.add(client_id)

    def close(self, client_id: bytes) -> None:
        """Remove a client, inside or outside of tasks, and close its account. Unknown ids are ignored."""
        self._inside.discard(client_id)
        account = self._accounts.pop(client_id, None)
        if account is not None and self._has_turns and not self._inside:
            del self._labels[account]
            self._numbers[owner_of(account)].free(number_of(account))
