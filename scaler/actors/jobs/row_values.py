"""Row values: stores the functions and values that a job's tasks need, and fetches large results.

Used by the job. A large result stays with its agent until the job has fetched the bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from scaler.actors.messages.objects import DeleteObject, FetchObject, StoreObject
from scaler.actors.objects.located import LocatedFrames
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import ClientId, ObjectId, TaskId, content_id
from scaler.jobs.record import JobObject
from scaler.kit import ActorRef
from scaler.pickling.serialization import Frames
from scaler.wire.messages.common import FOUND, InstructionKind, ObjectResponse
from scaler.wire.session.lost_frames import LostFrames

logger = logging.getLogger(__name__)


class StoreReader:
    """A stand-in for a peer: passes the answers of the object store to an actor of the scheduler."""

    def __init__(self, actor: ActorRef, client_id: ClientId) -> None:
        self.put = actor.send
        self.is_due = True
        """always True, so that the outbox does not add this stand-in to the peers that the edge serves"""
        self.key = ("job", client_id)


class JobResults:
    """Fetches the large results of a job from agents. `client_id`: the job's id at the object store."""

    def __init__(self, actor: ActorRef, client_id: ClientId, owner: Owner, store: ActorRef) -> None:
        self._actor, self._client_id, self._owner, self._store = actor, client_id, owner, store
        self._reader: Any = StoreReader(actor, client_id)
        self._awaited: dict[ObjectId, int] = {}
        """the requested results by id, each with the duration of its run in microseconds"""

    def take(
        self, task_id: TaskId, frames: Frames, function_id: ObjectId, duration_us: int
    ) -> tuple[Frames | None, str]:
        """Return the frames of a result (None if they are lost or not here), and why they are lost (empty if they are
        not).

        If the frames are at an agent, request them; `receive` returns them later.
        """
        if type(frames) is LostFrames:
            return None, frames.reason
        if type(frames) is not LocatedFrames:
            return frames, ""
        object_id = ObjectId(task_id)
        self._awaited[object_id] = duration_us
        whose = (self._actor, self._owner, function_id)
        self._store.send(StoreObject(object_id, self._client_id, "", frames, True, False, b"", *whose))
        self._store.send(FetchObject(object_id, self._reader, None, by_value=True, whole=True))
        return None, ""

    def receive(self, response: ObjectResponse) -> tuple[Frames | None, int]:
        """Return the frames of an arrived result (None if the result is lost), and the microseconds of its run."""
        if response.object_id not in self._awaited:
            return None, 0
        duration_us = self._awaited.pop(response.object_id)
        self._store.send(DeleteObject(response.object_id, self._client_id))
        return response.frames if response.found == FOUND and response.frames else None, duration_us

    def lose(self, object_id: ObjectId) -> bool:
        """Drop a result that was lost with its host. Return whether the job had requested that result."""
        return self._awaited.pop(object_id, None) is not None


def store_objects(
    objects: Iterable[JobObject], function: str, client_id: ClientId, owner: Owner, job: ActorRef, store: ActorRef
) -> None:
    """Store the functions and values of a job's rows in the object store. Functions are shared by all owners.

    Args:
        function: the name of functions that the record stores without a name.
    """
    for each in objects:
        is_function = each.kind == InstructionKind.CREATE_FUNCTION
        if is_function and content_id(each.frames) != each.object_id:
            logger.warning("a function of a job is dropped: its id is not the hash of its content")
            continue
        object_id, payer = ObjectId(each.object_id), None if is_function else owner
        name = each.name or (function if is_function else "")
        store.send(StoreObject(object_id, client_id, name, each.frames, True, is_function, b"", job, payer))
