"""ClientObjects: stores, fetches and deletes objects for one client, and decides which objects the client may read.

Owned by the client session. The objects are in the object store. The id of a function is checked against its content.
"""

from __future__ import annotations

import logging

from scaler.actors.dependencies.input_values import TAKEN
from scaler.actors.messages.objects import DeleteObject, FetchObject, StoreObject
from scaler.actors.messages.tasks import TaskDone
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.vocabulary.services import Services
from scaler.ids import ClientId, ObjectId, TaskId, content_id, split_ids
from scaler.kit import ActorRef
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectRequest, TaskStatus
from scaler.wire.session.lost_frames import LostFrames

logger = logging.getLogger(__name__)

DELETED_MOST = 1024
"""When this number of deleted objects is known, those that the object store has deleted are forgotten."""

FOREIGN = "an object that it names belongs to another owner, who alone may read it"


class ClientObjects:
    """The access of one client to the object store.

    Args:
        payer: the owner whose quota limits the client's objects. For a client inside a task: the owner of the task.
        reads_all: whether the client may read objects of all owners. A client in tasks works for several owners.
    """

    def __init__(
        self, session: ActorRef, client_id: ClientId, peer: Peer, services: Services, payer: Owner, *, reads_all: bool
    ) -> None:
        self._session, self._client_id, self._peer, self._services = session, client_id, peer, services
        self.payer = payer
        self.is_stored = services.is_stored
        """returns whether an object with an id exists; a cheap function, since it is called for each task"""
        self._reads_all = reads_all
        self._deleted: set[ObjectId] = set()
        """objects that the client has deleted; some of them the object store has not deleted yet"""
        self._deleted_most = DELETED_MOST

    @property
    def _reader(self) -> Owner | None:
        """The owner whose objects the client may read; None if the client may read the objects of all owners."""
        return None if self._reads_all or self._peer.is_admin else self.payer

    def is_foreign(self, object_ids: bytes) -> bool:
        """Return whether any object in `object_ids` belongs to another owner, so that the client may not read it."""
        payer_of, reader = self._services.payer_of, self._reader
        return reader is not None and any(
            payer_of(ObjectId(packed)) not in (None, reader) for packed in split_ids(object_ids)
        )

    def is_of_another(self, task_id: TaskId) -> bool:
        """Return whether another client has an object with this task's id, which readers would take for the result."""
        return self._services.supplier_of(ObjectId(task_id)) not in (None, self._client_id)

    def why_not(self, spec: Task) -> str:
        """Return why a task that needs results, or is in a graph, may not run; empty if it may run."""
        if spec.object_ids and self.is_foreign(spec.object_ids):
            return FOREIGN
        return TAKEN if self.is_stored(spec.task_id) and self.is_of_another(spec.task_id) else ""

    def why_unreadable(self, task_id: TaskId) -> str:
        """Return why the client may not read the object with the id of a task; empty if it may."""
        return FOREIGN if self.is_foreign(task_id) else ""

    def result_of(self, task_id: TaskId) -> TaskResult | None:
        """Return the result of a task of the client if its value is stored; None if it is lost or unknown."""
        object_id = ObjectId(task_id)
        size = None if object_id in self._deleted else self._services.result_bytes(object_id, self._client_id)
        return None if size is None else TaskResult(task_id, TaskStatus.SUCCESS, b"", size)

    def instruct(self, instruction: ObjectInstruction) -> None:
        """Store or delete an object for the client."""
        store, object_id, frames = self._services.object_store, instruction.object_id, instruction.frames
        if instruction.kind == InstructionKind.DELETE:
            if len(self._deleted) >= self._deleted_most:
                self._deleted = set(filter(self.is_stored, self._deleted))
                self._deleted_most = max(DELETED_MOST, 2 * len(self._deleted))
            self._deleted.add(object_id)
            store.send(DeleteObject(object_id, self._client_id))
            return
        if not (frames or instruction.location) and type(frames) is not LostFrames:
            frames = LostFrames(0, "its client has sent neither its bytes nor a location")
        # A function whose bytes were lost is missing for this client only: others may have stored it.
        is_function = instruction.kind == InstructionKind.CREATE_FUNCTION and type(frames) is not LostFrames
        what = instruction.name or ("a function" if is_function else "an argument")
        if type(frames) is LostFrames:
            logger.warning("client %s: %s is dropped: %s", self._client_id.hex()[:8], what, frames.reason)
        if is_function and (instruction.location or content_id(frames) != object_id):
            # Tasks that name it fail, unless another client has stored the right function.
            why = "it has a location" if instruction.location else "its id is not the hash of its content"
            logger.warning("client %s: a function is dropped: %s", self._client_id.hex()[:8], why)
            return
        store.send(
            StoreObject(
                object_id,
                self._client_id,
                instruction.name,
                frames,
                held=instruction.kind != InstructionKind.CREATE_FOR_TASK,
                is_function=is_function,
                location=instruction.location,
                source=self._session,
                payer=None if is_function else self.payer,
            )
        )

    def keep_result(self, done: TaskDone) -> None:
        """Keep a large result until the client drops it. The bytes stay in the scheduler or at the agent."""
        self._deleted.discard(ObjectId(done.result.task_id))
        self._services.object_store.send(
            StoreObject(
                ObjectId(done.result.task_id),
                self._client_id,
                "",
                done.frames,
                held=True,
                source=self._session,
                payer=self.payer,
                function_id=done.function_id,
            )
        )

    def fetch(self, request: ObjectRequest) -> None:
        """Fetch an object for the client."""
        fetch = FetchObject(request.object_id, self._peer, None, bool(request.by_value), self._reader)
        self._services.object_store.send(fetch)
