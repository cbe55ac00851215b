"""Accounts: an account is one number, made of the tag of an owner and the number of one of the owner's root clients.

Used by the scheduler and by the queues of agents. Messages have tag and number in separate fields. A tag depends only
on the name of an owner, so each scheduler computes the same tags.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol

NUMBER_BITS = 32
NUMBER_MOST = (1 << NUMBER_BITS) - 1
TAG_BYTES = 8


class HasAccount(Protocol):
    """A message with the number of a client (`account`) and the tag of its owner (`owner`)."""

    @property
    def account(self) -> int: ...
    @property
    def owner(self) -> int: ...


def tag_of(name: str) -> int:
    """Return the tag of an owner; 0 for the owner without a name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=TAG_BYTES).digest(), "little") if name else 0


def account_in(item: HasAccount) -> int:
    """Return the account to which a message belongs."""
    return item.owner << NUMBER_BITS | item.account  # `account_of`, without a call for each task


def account_of(tag: int, number: int) -> int:
    """Return the account made of the tag of an owner and the number of a client."""
    return tag << NUMBER_BITS | number


def number_of(account: int) -> int:
    """Return the number of the client in an account."""
    return account & NUMBER_MOST


def owner_of(account: int) -> int:
    """Return the tag of the owner of an account."""
    return account >> NUMBER_BITS
