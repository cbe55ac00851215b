"""PendingRequests: what agents ask for before all clients have said what they had stored at another scheduler.

Part of the object table; the object store alone writes to it.
"""

from __future__ import annotations

from itertools import chain

from scaler.actors.messages.objects import FetchObject
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef


class PendingRequests:
    """The requests that wait for an object which may still be said.

    Attributes:
        owners: those who have not said all; None: this scheduler is young, and others may come.
    """

    def __init__(self) -> None:
        self.owners: set[ClientId | None] = {None}
        self._asked: dict[ObjectId, list[FetchObject]] = {}

    def has_to_wait(self, fetch: FetchObject) -> bool:
        """Keep a request for what is not here, if it comes from an agent and may come too early. Return whether."""
        is_early = fetch.host is not None and bool(self.owners)
        if is_early:
            self._asked.setdefault(fetch.object_id, []).append(fetch)
        return is_early

    def take(self, object_id: ObjectId) -> list[FetchObject]:
        """An object is here. Return those who wait for it."""
        return self._asked.pop(object_id, [])

    def has_said_all(self, owner: ClientId | None) -> list[FetchObject]:
        """An owner has. If nobody else is to come, return all that wait: what they ask for is nowhere."""
        self.owners.discard(owner)
        asked = self._asked
        if not self.owners:
            self._asked = {}
        return [] if self.owners else list(chain.from_iterable(asked.values()))

    def leave(self, host: ActorRef) -> None:
        """An agent wants nothing any more."""
        left = {object_id: [each for each in asked if each.host != host] for object_id, asked in self._asked.items()}
        self._asked = {object_id: asked for object_id, asked in left.items() if asked}

    def awaited_by(self, host: ActorRef) -> set[ObjectId]:
        """Return what an agent waits for."""
        return {object_id for object_id, asked in self._asked.items() if any(each.host is host for each in asked)}
