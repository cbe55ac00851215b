"""Owners: to whom connections, and all that hangs on them, belong.

An owner is a name on the list of keys, whichever keys it has; or, where the permissions of a folder are the key, a user
of this machine. Where nobody needs a key, all connections belong to nobody in particular, who is one owner. What is
counted and bounded by owner is counted here. Clients inside tasks have the owner of the task that they work for.

Written by the edge and the acceptor, as a part of the directory, so it outlives both. Must never: know what a key is.
"""

from __future__ import annotations

from scaler.keys.allowed import USUAL, Terms

NOBODY = ""
"""The name of the owner where nobody needs a key."""


class Owner:
    """One owner. Equal to itself alone.

    Args:
        name: as lists and screens show it.
    """

    __slots__ = ("name", "terms")

    def __init__(self, name: str, terms: Terms = USUAL) -> None:
        self.name = name
        self.terms = terms

    def __str__(self) -> str:
        return self.name or "nobody"

    @property
    def share(self) -> int:
        """How many of its tasks are placed in one turn."""
        return self.terms.share


class Owners:
    """All that have been here. There are no more than names on the list, or users of the machine."""

    def __init__(self) -> None:
        self._by_name: dict[str, Owner] = {}
        self.nobody = self.of(NOBODY)

    def of(self, name: str, terms: Terms | None = None) -> Owner:
        """Return the owner with a name.

        Args:
            terms: what it may have from now on; None: what it had.
        """
        owner = self._by_name.get(name)
        if owner is None:
            owner = self._by_name[name] = Owner(name)
        if terms is not None:
            owner.terms = terms
        return owner
