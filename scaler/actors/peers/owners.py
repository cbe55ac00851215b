"""Owners: to whom connections, and all that hangs on them, belong.

An owner is a name on the list of keys, whichever keys it has; or, where the permissions of a folder are the key, a user
of this machine. Where nobody needs a key, all connections belong to nobody in particular, who is one owner. What is
counted and bounded by owner is counted here. Clients inside tasks have the owner of the task that they work for.

Written by the edge and the acceptor, as a part of the directory, so it outlives both. Must never: know what a key is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from scaler.keys.allowed import USUAL, OwnerTerms
from scaler.kit import ActorRef
from scaler.message import message
from scaler.wire.messages.accounts import tag_of

NOBODY = ""
"""The name of the owner where nobody needs a key."""


UNBOUNDED = 2**62

UNNAMED_MOST = 1024
"""How many owners may be known by their tags alone."""


@message
class RoomInQuota:
    """owner -> client session: some of your tasks may begin."""


class Owner:
    """One owner, with what is open of it. Equal to itself alone.

    Args:
        name: as lists and screens show it.
        tag: by which messages name it; None: that of the name.

    Attributes:
        clients: how many of its clients have a session; without those inside tasks.
        tasks: how many tasks these have open that may run; a graph counts as a whole.
        held: how many more they have that wait for room in the quota.
        n_bytes: of the values that they have stored, the results that nobody has dropped, and arguments of open tasks.
    """

    __slots__ = ("_terms", "_waiting", "clients", "held", "n_bytes", "name", "tag", "tasks")

    def __init__(self, name: str, terms: OwnerTerms = USUAL, tag: int | None = None) -> None:
        self.name = name
        self.tag = tag_of(name) if tag is None else tag
        self._terms = terms
        self.clients = self.tasks = self.held = self.n_bytes = 0
        self._waiting: OrderedDict[ActorRef, None] = OrderedDict()
        """sessions with tasks for which there is no room, the next one first"""

    def __str__(self) -> str:
        return self.name or "nobody"

    @property
    def share(self) -> int:
        """How many of its tasks are placed in one turn."""
        return self._terms.share

    @property
    def terms(self) -> OwnerTerms:
        """What it may have."""
        return self._terms

    @terms.setter
    def terms(self, terms: OwnerTerms) -> None:
        if terms != self._terms:
            self._terms = terms
            self.wake()

    @property
    def has_quota(self) -> bool:
        """Whether it may not have any number of tasks and bytes."""
        return bool(self._terms.tasks or self._terms.n_bytes)

    @property
    def is_awaited(self) -> bool:
        """Whether there is somebody who waits for room."""
        return bool(self._waiting)

    def room(self) -> int:
        """Return how many more tasks may begin."""
        terms = self._terms
        if terms.n_bytes and self.n_bytes >= terms.n_bytes:
            return 0
        return max(0, terms.tasks - self.tasks) if terms.tasks else UNBOUNDED

    def room_for_one(self) -> int:
        """Return how many more tasks one of the waiting sessions may begin: others wait behind it."""
        room = self.room()
        return room if room < 2 else max(1, room // (1 + len(self._waiting)))

    def has_room_for(self, n_bytes: int) -> bool:
        """Return whether it may have a value of so many bytes more."""
        return not self._terms.n_bytes or self.n_bytes + n_bytes <= self._terms.n_bytes

    def why_full(self) -> str:
        """Return a sentence about what there is no room for."""
        terms = self._terms
        if terms.n_bytes and self.n_bytes >= terms.n_bytes:
            return f"the values of its owner, {self}, take {self.n_bytes:,} bytes, and may take {terms.n_bytes:,}"
        return f"its owner, {self}, has {self.tasks:,} open tasks, and may have {terms.tasks:,}"

    def wait(self, session: ActorRef) -> None:
        """A session wants to hear when there is room."""
        self._waiting[session] = None

    def leave(self, session: ActorRef) -> None:
        """It does not want to hear that any more."""
        self._waiting.pop(session, None)

    def end(self, tasks: int) -> None:
        """So many of its tasks have ended."""
        self.tasks -= tasks
        if self._waiting:
            self.wake()

    def count_bytes(self, n_bytes: int) -> None:
        """So many bytes are stored for it, or are dropped if it is less than 0."""
        self.n_bytes += n_bytes
        if n_bytes < 0 and self._waiting:
            self.wake()

    def wake(self) -> None:
        """Tell the next session that waits, if there is room."""
        if self._waiting and self.room():
            self._waiting.popitem(last=False)[0].send(RoomInQuota())


class Owners:
    """All that have been here. There are no more than names on the list, or users of the machine."""

    def __init__(self) -> None:
        self._by_name: dict[str, Owner] = {}
        self._by_tag: dict[int, Owner] = {}
        """also those whose names are not known yet: runs of their tasks are older than this scheduler"""
        self.nobody = self.of(NOBODY)

    def __iter__(self) -> Iterator[Owner]:
        return iter(dict.fromkeys(self._by_name.values()))

    def nobody_is(self, name: str) -> None:
        """Nobody needs a key: what this user keeps belongs to the one owner of all connections."""
        self._by_name[name] = self._by_tag[tag_of(name)] = self.nobody

    def of(self, name: str, terms: OwnerTerms | None = None) -> Owner:
        """Return the owner with a name.

        Args:
            terms: what it may have from now on; None: what it had.
        """
        owner = self._by_name.get(name)
        if owner is None:
            tag = tag_of(name)
            owner = self._by_name[name] = self._by_tag.setdefault(tag, Owner(name, tag=tag))
            owner.name = name
        if terms is not None:
            owner.terms = terms
        return owner

    def tagged(self, tag: int) -> Owner:
        """Return the owner with a tag. It has no name before its first connection or line in the list."""
        owner = self._by_tag.get(tag)
        if owner is None:
            if len(self._by_tag) >= UNNAMED_MOST + len(self._by_name):
                return self.nobody
            owner = self._by_tag[tag] = Owner(NOBODY, tag=tag)
        return owner
