"""Owners: the owners of connections and of all that depends on connections, with counts and bounds of their work.

An owner is a name on the list of keys or, where the permissions of a folder replace keys, a user of this machine. Where
no key is needed, all connections belong to one unnamed owner. Clients inside tasks have the owner of their task. The
edge and the acceptor change the owners, which outlive both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from scaler.keys.allowed import USUAL, OwnerTerms
from scaler.kit import ActorRef
from scaler.message import message
from scaler.wire.messages.accounts import tag_of

NOBODY = ""
"""The name of the unnamed owner, to whom all connections belong where no key is needed."""


UNBOUNDED = 2**62

UNNAMED_MOST = 1024
"""Limit of the owners that are known by tag only, without a name."""


@message
class RoomInQuota:
    """owner -> client session: some of your held tasks may start, because the quota has capacity."""


class Owner:
    """An owner of connections, with counts of its open work. Owners are compared by identity.

    Args:
        tag: the number that stands for the owner in messages; None: derived from the name.

    Attributes:
        clients: the number of root clients of the owner that have a session.
        tasks: the number of open tasks that may run; a graph counts with all its nodes.
        held: the number of further tasks, which are held because of the quota.
        n_bytes: the bytes of stored values, of results that are not dropped, and of arguments of open tasks.
    """

    __slots__ = ("_terms", "_waiting", "clients", "held", "n_bytes", "name", "tag", "tasks")

    def __init__(self, name: str, terms: OwnerTerms = USUAL, tag: int | None = None) -> None:
        self.name = name
        self.tag = tag_of(name) if tag is None else tag
        self._terms = terms
        self.clients = self.tasks = self.held = self.n_bytes = 0
        self._waiting: OrderedDict[ActorRef, None] = OrderedDict()
        """the sessions with held tasks, in the order of notification"""

    def __str__(self) -> str:
        return self.name or "nobody"

    @property
    def share(self) -> int:
        """The number of turns that the accounts of this owner get in each turn of the owner."""
        return self._terms.share

    @property
    def terms(self) -> OwnerTerms:
        """The quota and the share of the owner."""
        return self._terms

    @terms.setter
    def terms(self, terms: OwnerTerms) -> None:
        if terms != self._terms:
            self._terms = terms
            self.wake()

    @property
    def has_quota(self) -> bool:
        """Whether the number of tasks or bytes of the owner is limited."""
        return bool(self._terms.tasks or self._terms.n_bytes)

    @property
    def is_awaited(self) -> bool:
        """Whether a session waits for capacity in the quota."""
        return bool(self._waiting)

    def room(self) -> int:
        """Return the number of further tasks that may start."""
        terms = self._terms
        if terms.n_bytes and self.n_bytes >= terms.n_bytes:
            return 0
        return max(0, terms.tasks - self.tasks) if terms.tasks else UNBOUNDED

    def room_for_one(self) -> int:
        """Return how many further tasks the next session may start: `room`, or a part of it if more sessions wait."""
        room = self.room()
        return room if room < 2 else max(1, room // (1 + len(self._waiting)))

    def has_room_for(self, n_bytes: int) -> bool:
        """Return whether the quota permits another value of `n_bytes` bytes."""
        return not self._terms.n_bytes or self.n_bytes + n_bytes <= self._terms.n_bytes

    def why_full(self) -> str:
        """Return a sentence that says which quota is exhausted."""
        terms = self._terms
        if terms.n_bytes and self.n_bytes >= terms.n_bytes:
            return f"the values of its owner, {self}, take {self.n_bytes:,} bytes, and may take {terms.n_bytes:,}"
        return f"its owner, {self}, has {self.tasks:,} open tasks, and may have {terms.tasks:,}"

    def wait(self, session: ActorRef) -> None:
        """Notify a session with `RoomInQuota` once the quota has capacity."""
        self._waiting[session] = None

    def leave(self, session: ActorRef) -> None:
        """Remove a session from the sessions that wait for capacity."""
        self._waiting.pop(session, None)

    def end(self, tasks: int) -> None:
        """Subtract `tasks` ended tasks from the open tasks."""
        self.tasks -= tasks
        if self._waiting:
            self.wake()

    def count_bytes(self, n_bytes: int) -> None:
        """Add `n_bytes` stored bytes; a negative number subtracts dropped bytes."""
        self.n_bytes += n_bytes
        if n_bytes < 0 and self._waiting:
            self.wake()

    def wake(self) -> None:
        """Notify the next waiting session if the quota has capacity."""
        if self._waiting and self.room():
            self._waiting.popitem(last=False)[0].send(RoomInQuota())


class Owners:
    """All owners with a name, and at most `UNNAMED_MOST` owners known by tag only."""

    def __init__(self) -> None:
        self._by_name: dict[str, Owner] = {}
        self._by_tag: dict[int, Owner] = {}
        """the owners by tag, including owners without a known name, whose runs are older than this scheduler"""
        self.nobody = self.of(NOBODY)
        self.nested = Owner(NOBODY)
        """counts the open tasks of clients in tasks, which have no quota"""

    @property
    def n_open(self) -> int:
        """The number of all open tasks, including those that are held because of a quota."""
        owners = {*self._by_tag.values(), *self._by_name.values(), self.nested}
        return sum(owner.tasks + owner.held for owner in owners)

    def __iter__(self) -> Iterator[Owner]:
        return iter(dict.fromkeys(self._by_name.values()))

    def alias_nobody(self, name: str) -> None:
        """Give the unnamed owner a user's name, where no key is needed. So it owns the jobs of this user."""
        self._by_name[name] = self._by_tag[tag_of(name)] = self.nobody

    def of(self, name: str, terms: OwnerTerms | None = None) -> Owner:
        """Return the owner with a name. `terms`: the new quota and share of the owner; None: no change."""
        owner = self._by_name.get(name)
        if owner is None:
            tag = tag_of(name)
            owner = self._by_name[name] = self._by_tag.setdefault(tag, Owner(name, tag=tag))
            owner.name = name
        if terms is not None:
            owner.terms = terms
        return owner

    def tagged(self, tag: int) -> Owner:
        """Return the owner with a tag. A new owner has no name before its first connection or entry in the list."""
        owner = self._by_tag.get(tag)
        if owner is None:
            if len(self._by_tag) >= UNNAMED_MOST + len(self._by_name):
                return self.nobody
            owner = self._by_tag[tag] = Owner(NOBODY, tag=tag)
        return owner
