"""ObjectOwner: the part of a client's session that is about the objects of the client.

Written to by the edge and the object store; sends to the object store and, through the outbox, to the client. Must
never: keep an object, or know a task.
"""

from __future__ import annotations

import logging
from typing import Any

from scaler.actors.events import PeerIdentity
from scaler.actors.kit import handles
from scaler.actors.messages.objects import DeleteObject, FetchObject, StoreObject, SupplyObject
from scaler.actors.session import Session
from scaler.ids import ClientId, ObjectId, content_id
from scaler.serialization import Frames
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectRequest

logger = logging.getLogger(__name__)


class ObjectOwner(Session):
    """One client and its objects. The arguments are those of `Session`."""

    def __init__(self, identity: PeerIdentity, *arguments: Any) -> None:
        super().__init__(identity, *arguments)
        self._client_id = ClientId(identity.peer_id)
        self._object_store = self._services.object_store

    @handles(Batch[ObjectInstruction])
    def _instruct(self, batch: Batch[ObjectInstruction]) -> None:
        for instruction in batch:
            if instruction.kind == InstructionKind.DELETE:
                self._object_store.send(DeleteObject(instruction.object_id, self._client_id))
            else:
                self._store(instruction)

    def _store(self, instruction: ObjectInstruction) -> None:
        is_function = instruction.kind == InstructionKind.CREATE_FUNCTION
        if is_function and (instruction.location or content_id(instruction.frames) != instruction.object_id):
            # Tasks that name it find no function, unless another client has stored the right one.
            why = "it has a location" if instruction.location else "its id is not the hash of its content"
            logger.warning("%s: a function is not kept: %s", self._title, why)
            return
        self._object_store.send(
            StoreObject(
                instruction.object_id,
                self._client_id,
                instruction.name,
                instruction.frames,
                held=instruction.kind != InstructionKind.CREATE_FOR_TASK,
                is_function=is_function,
                location=instruction.location,
                source=self.actor_ref,
            )
        )

    @handles(Batch[ObjectRequest])
    def _request(self, batch: Batch[ObjectRequest]) -> None:
        for request in batch:
            self._object_store.send(FetchObject(request.object_id, self._peer, None, by_value=True))

    @handles(SupplyObject)
    def _supply(self, supply: SupplyObject) -> None:
        self._outbox.put(self._peer, ObjectRequest(supply.object_id, 1))

    def _store_result(self, result: TaskResult, frames: Frames) -> None:
        self._object_store.send(StoreObject(ObjectId(result.task_id), self._client_id, "", frames, held=True))
