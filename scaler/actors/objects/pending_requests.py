"""PendingRequests: requests of agents for objects that their clients have not resubmitted to this scheduler yet.

Part of the object table. Only the object store changes it.
"""

from __future__ import annotations

from itertools import chain

from scaler.actors.messages.objects import FetchObject
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef


class PendingRequests:
    """Requests for objects that clients may still resubmit.

    Attributes:
        owners: clients that have not resubmitted all objects. None stands for clients that have not returned yet.
    """

    def __init__(self) -> None:
        self.owners: set[ClientId | None] = {None}
        self._asked: dict[ObjectId, list[FetchObject]] = {}

    def has_to_wait(self, fetch: FetchObject) -> bool:
        """If an agent requests an object that may still be resubmitted, keep the request and return True."""
        is_early = fetch.host is not None and bool(self.owners)
        if is_early:
            self._asked.setdefault(fetch.object_id, []).append(fetch)
        return is_early

    def take(self, object_id: ObjectId) -> list[FetchObject]:
        """Remove and return the requests for an object that has arrived."""
        return self._asked.pop(object_id, [])

    def owner_resubmitted(self, owner: ClientId | None) -> list[FetchObject]:
        """Remove an owner that has resubmitted everything. After the last owner, return all requests; else none."""
        self.owners.discard(owner)
        asked = self._asked
        if not self.owners:
            self._asked = {}
        return [] if self.owners else list(chain.from_iterable(asked.values()))

    def leave(self, host: ActorRef) -> None:
        """Drop the requests of an agent."""
        left = {object_id: [each for each in asked if each.host != host] for object_id, asked in self._asked.items()}
        self._asked = {object_id: asked for object_id, asked in left.items() if asked}

    def awaited_by(self, host: ActorRef) -> set[ObjectId]:
        """Return the objects that an agent waits for."""
        return {object_id for object_id, asked in self._asked.items() if any(each.host is host for each in asked)}
