"""ObjectCache: the functions and objects of a node, each fetched once, whichever workers need it.

Written to by workers (`NeedObject`) and the link (answers and deletes of the scheduler). Sends objects to the workers,
and requests for the scheduler to the link. A large object lies in one block of shared memory that all processors map.

A function is shared by all clients, so nobody may put another one in its place: what a task calls is kept only if its
content matches its id, wherever it came from.

Must never: read an object.
"""

from __future__ import annotations

import logging

from scaler.agent.messages import FetchObject, KeepObject, ObjectsHere, SayWhatIsKept
from scaler.executors.messages import ForgetObjects, NeedObject, ObjectFound, ObjectLost, StoredObject
from scaler.ids import ObjectId, content_id
from scaler.kit import Actor, ActorRef, handles
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import INLINE_FRAMES_BYTES, SharedBlock, Slabs, block_of
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectResponse

logger = logging.getLogger(__name__)


class ObjectCache(Actor):
    """The node's objects. They stay until the scheduler says that they are deleted."""

    def __init__(self, link: ActorRef, workers: tuple[ActorRef, ...]) -> None:
        self._link = link
        self._workers = workers
        self._stored: dict[ObjectId, StoredObject] = {}
        self._waiting: dict[ObjectId, list[ActorRef]] = {}
        self._called: set[ObjectId] = set()
        """those of the stored and the awaited that tasks call: what is stored of them matches its id"""
        self._slabs = Slabs()

    @handles(NeedObject)
    def _need(self, need: NeedObject) -> None:
        stored = self._stored.get(need.object_id)
        if need.is_function and need.object_id not in self._called:
            self._called.add(need.object_id)
            if stored is not None and not self._may_be_kept(need.object_id, _frames(stored)):
                del self._stored[need.object_id]
                self._forget([need.object_id])
                stored = None
        if stored is not None:
            need.worker.send(ObjectFound(stored))
            return
        waiting = self._waiting.get(need.object_id)
        if waiting is None:
            self._waiting[need.object_id] = [need.worker]
            self._link.send(FetchObject(need.object_id))
        elif need.worker not in waiting:
            waiting.append(need.worker)

    @handles(Batch[ObjectResponse])
    def _responses(self, responses: Batch[ObjectResponse]) -> None:
        for response in responses:
            waiting = self._waiting.pop(response.object_id, None)
            if waiting is None:
                continue  # no worker waits for it any more
            if response.found and response.location:
                self._look_there(response, waiting)
            elif response.found and response.frames and self._may_be_kept(response.object_id, response.frames):
                self._take(response, waiting)
            else:
                self._lost(response.object_id, waiting, response.reason)

    def _take(self, response: ObjectResponse, waiting: list[ActorRef]) -> None:
        try:
            stored = _store(self._slabs, response.object_id, response.frames)
        except MemoryError:
            reason = f"its worker's host has no memory for its {size_of(response.frames):,} bytes"
            logger.error("an object is missing here: %s", reason)  # noqa: TRY400 - one line says it
            self._lost(response.object_id, waiting, reason)
        else:
            self._found(stored, waiting)

    def _may_be_kept(self, object_id: ObjectId, frames: Frames) -> bool:
        """Return whether this is not another function than the one that tasks call by this id."""
        if object_id not in self._called or content_id(frames) == object_id:
            return True
        logger.warning("what arrived as the function %s is another one: it is not kept", object_id.hex())
        return False

    def _lost(self, object_id: ObjectId, waiting: list[ActorRef], reason: str) -> None:
        self._called.discard(object_id)
        for worker in waiting:
            worker.send(ObjectLost(object_id, reason))

    def _found(self, stored: StoredObject, waiting: list[ActorRef]) -> None:
        self._stored[stored.object_id] = stored
        for worker in waiting:
            worker.send(ObjectFound(stored))

    def _look_there(self, response: ObjectResponse, waiting: list[ActorRef]) -> None:
        """Take an object from its client's memory; if that is impossible, ask for its bytes."""
        try:
            block = SharedBlock.open(response.location)
            if not self._may_be_kept(response.object_id, block.map()):
                raise OSError("its content does not match its id")
        except OSError as error:
            logger.debug("object %s is sent, because its memory cannot be shared: %s", response.object_id.hex(), error)
            self._waiting[response.object_id] = waiting
            self._link.send(FetchObject(response.object_id, by_value=True))
        else:
            self._found(StoredObject(response.object_id, (), block), waiting)

    @handles(Batch[ObjectInstruction])
    def _instructions(self, instructions: Batch[ObjectInstruction]) -> None:
        deleted = [item.object_id for item in instructions if item.kind == InstructionKind.DELETE]
        gone = [object_id for object_id in deleted if self._stored.pop(object_id, None) is not None]
        self._called.difference_update(gone)
        self._forget(gone)

    @handles(KeepObject)
    def _keep(self, keep: KeepObject) -> None:
        """Keep a result of this node and report the copy, so that it is deleted like fetched objects."""
        object_id = keep.object_id
        if object_id not in self._stored and self._may_be_kept(object_id, keep.frames):
            block = block_of(keep.frames)
            if block is None:
                stored = _store(self._slabs, object_id, keep.frames)
            else:
                stored = StoredObject(object_id, (), block)
            self._found(stored, self._waiting.pop(object_id, []))
            self._link.send(ObjectsHere([object_id]))

    @handles(SayWhatIsKept)
    def _say_what_is_kept(self, _say: SayWhatIsKept) -> None:
        if self._stored:
            self._link.send(ObjectsHere(list(self._stored)))

    def _forget(self, object_ids: list[ObjectId]) -> None:
        if object_ids:
            for worker in self._workers:
                worker.send(ForgetObjects(object_ids))


def _frames(stored: StoredObject) -> Frames:
    return stored.frames if stored.block is None else stored.block.map()


def _store(slabs: Slabs, object_id: ObjectId, frames: Frames) -> StoredObject:
    """Copy what arrived out of the socket's memory: into shared memory if it is large."""
    if size_of(frames) > INLINE_FRAMES_BYTES:
        try:
            return StoredObject(object_id, (), slabs.put(frames))
        except OSError as error:  # it works without, with a copy for each processor
            logger.warning("no shared memory for an object: %s", error)
    return StoredObject(object_id, [bytes(memoryview(frame)) for frame in frames], None)
