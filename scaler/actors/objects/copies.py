"""Copies: which hosts have copies of which objects, and how long they keep unneeded functions.

Has two tables, which only the object store changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from scaler.ids import ObjectId
from scaler.kit import ActorRef

RETAINED_BYTES_MOST = 1024 * 1024 * 1024
"""Limit of the bytes of unneeded functions on hosts. Half a minute of new closures could otherwise fill the memory."""

_K = TypeVar("_K")
_V = TypeVar("_V")


def discard(table: dict[_K, set[_V]], key: _K, value: _V) -> None:
    """Remove `value` from the set at a key of a table. An empty set is removed from the table."""
    values = table[key]
    values.discard(value)
    if not values:
        del table[key]


class Copies:
    """The hosts that have copies of each object, by object and by host. A host's key is the session of its agent."""

    def __init__(self) -> None:
        self.hosts: dict[ObjectId, dict[ActorRef, None]] = {}
        """the hosts with a copy of each object: dicts as ordered sets, so that tests with the same seed send the same
        messages
        """
        self.objects: dict[ActorRef, set[ObjectId]] = {}

    def add(self, object_id: ObjectId, host: ActorRef) -> None:
        self.hosts.setdefault(object_id, {})[host] = None
        self.objects.setdefault(host, set()).add(object_id)

    def remove_object(self, object_id: ObjectId) -> Iterable[ActorRef]:
        """Forget all copies of an object. Return the hosts that have a copy."""
        hosts = self.hosts.pop(object_id, {})
        for host in hosts:
            discard(self.objects, host, object_id)
        return hosts

    def remove(self, object_id: ObjectId, host: ActorRef) -> ActorRef | None:
        """Forget the copy of an object on a host, if there is one. Return another host with a copy, or None."""
        hosts = self.hosts.get(object_id, {})
        if hosts.pop(host, host) is None:
            discard(self.objects, host, object_id)
            if not hosts:
                del self.hosts[object_id]
        return next(iter(hosts), None)

    def remove_host(self, host: ActorRef) -> set[ObjectId]:
        """Forget all copies of a host. Return the objects without another copy."""
        objects = self.objects.pop(host, set())
        for object_id in objects:
            hosts = self.hosts[object_id]
            hosts.pop(host, None)
            if not hosts:
                del self.hosts[object_id]
        return objects - self.hosts.keys()


class Retained:
    """Functions that exist only as copies on hosts. Each has a deadline and a size; the earliest deadline is first."""

    def __init__(self) -> None:
        self.ends: dict[ObjectId, float] = {}
        self._sizes: dict[ObjectId, int] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.ends)

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self.ends

    def add(self, object_id: ObjectId, end: float, size_bytes: int) -> None:
        """Retain a function until the deadline `end`, which must not be earlier than the deadlines added before."""
        self.ends[object_id] = end
        self._sizes[object_id] = size_bytes
        self.size_bytes += size_bytes

    def remove(self, object_id: ObjectId) -> None:
        """Stop retaining a function, because a task needs it or no copy is left. Unknown ids are ignored."""
        if self.ends.pop(object_id, None) is not None:
            self.size_bytes -= self._sizes.pop(object_id)

    def first_end(self) -> float | None:
        """Return the first deadline, or None if no function is retained."""
        return next(iter(self.ends.values()), None)

    def take_expired(self, now: float) -> list[ObjectId]:
        """Remove and return the functions whose deadline has passed."""
        ended = []
        for object_id, end in self.ends.items():
            if end > now:
                break
            ended.append(object_id)
        return self._take(ended)

    def take_surplus(self) -> list[ObjectId]:
        """Remove functions, earliest deadline first, until the rest has `RETAINED_BYTES_MOST` or less. Return them."""
        surplus, size_bytes = [], self.size_bytes
        for object_id in self.ends:
            if size_bytes <= RETAINED_BYTES_MOST:
                break
            size_bytes -= self._sizes[object_id]
            surplus.append(object_id)
        return self._take(surplus)

    def _take(self, object_ids: list[ObjectId]) -> list[ObjectId]:
        for object_id in object_ids:
            self.remove(object_id)
        return object_ids
