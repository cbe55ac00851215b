"""ObjectCache: the functions and objects of a node, each fetched once for all its workers.

It answers the `NeedObject` messages of workers, and obeys the scheduler, which requests and deletes objects through the
link. It never reads an object. A large object lies in one block of shared memory that all processors map. Unread
objects beyond the memory budget are on disk (`scaler.store`). Results of this node (`NodeValues`) are objects too: the
scheduler requests a result if a reader cannot open the location of the result.

All clients share the functions of a node. So the cache stores an object that tasks use as a function only if the
content of the object matches its id.
"""

from __future__ import annotations

import logging

from scaler.agent.messages import (
    FetchForWorker,
    HandOverValues,
    KeepObject,
    ObjectsHere,
    ObjectsSupplied,
    PartsSupplied,
    PausedChanged,
    ReportKeptObjects,
    ValuesKept,
)
from scaler.agent.values import NodeValues
from scaler.errors import ObjectTooLargeError
from scaler.executors.messages import (
    CachedObject,
    CollectionDue,
    ForgetObjects,
    NeedObject,
    ObjectFound,
    ObjectUnavailable,
)
from scaler.ids import ObjectId, content_id
from scaler.kit import Actor, ActorRef, Timer, handles
from scaler.message import message
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import SharedBlock, block_of
from scaler.store.store import ValueStore
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    FOUND,
    NOT_FOUND,
    InstructionKind,
    ObjectInstruction,
    ObjectPart,
    ObjectRequest,
    ObjectResponse,
    PartRequest,
)
from scaler.wire.session.streamed import part_of, sizes_of

logger = logging.getLogger(__name__)

GONE = "its host no longer has it"
LOOK_SECONDS = 1.0
"""The pause between two attempts to free memory while the store exceeds its budget and can free nothing."""
HAND_OVER_BYTES = 8 * 1024 * 1024
"""The most bytes of values that a node which leaves hands over in one batch, unless a single value is larger."""
SUPPLIED_SECONDS = 5.0
"""The time that a value stays in memory, at least, after the scheduler has requested a part of the value."""


@message
class _SupplyLook:
    """Cache to itself, by timer: release values of which no part was requested lately."""


@message
class _MakeRoom:
    """Cache to itself: continue to free dropped objects, and to move values to disk."""


class ObjectCache(Actor):
    """Fetches the objects that workers need. An object stays until the scheduler deletes it.

    Args:
        values: knows which objects are results of this node.
        can_pause: whether workers obey `PauseTasks`.
    """

    def __init__(
        self,
        link: ActorRef,
        workers: tuple[ActorRef, ...],
        store: ValueStore,
        values: NodeValues,
        can_pause: bool = False,
    ) -> None:
        self._link = link
        self._workers = workers
        self._store = store
        self._values = values
        self._paused_workers = values.room
        self._paused_workers.workers = workers
        self._can_pause = can_pause
        self._is_making_room = False
        self._look: Timer | None = None
        """the timer of the next attempt to free memory; None if no attempt waits for a timer"""
        self._is_full = False
        """whether a log line has reported that the store is full"""
        self._n_paused = len(self._paused_workers.held)
        """how many workers are paused, as last reported to the scheduler"""
        self._supplied: dict[tuple[ObjectId, bytes], Frames] = {}
        """values that are sent part by part, by id and location; these values stay in memory meanwhile"""
        self._supplied_lately: set[tuple[ObjectId, bytes]] = set()
        self._handed_over: set[ObjectId] = set()
        self._waiting: dict[ObjectId, list[ActorRef]] = {}
        self._called: set[ObjectId] = set()
        """stored and awaited objects that tasks use as functions; the content of each stored one matches its id"""

    def on_start(self) -> None:
        self._make_room()

    @handles(NeedObject)
    def _need(self, need: NeedObject) -> None:
        stored = self._stored(need.object_id)
        if need.is_function and need.object_id not in self._called:
            self._called.add(need.object_id)
            if stored is not None and not self._may_be_kept(need.object_id, self._store.frames(need.object_id)):
                self._store.drop(need.object_id)
                self._make_room()
                self._forget([need.object_id])
                stored = None
        if stored is not None:
            need.worker.send(ObjectFound(stored))
            return
        waiting = self._waiting.get(need.object_id)
        if waiting is None:
            self._waiting[need.object_id] = [need.worker]
            self._link.send(FetchForWorker(need.object_id))
        elif need.worker not in waiting:
            waiting.append(need.worker)

    def _stored(self, object_id: ObjectId) -> CachedObject | None:
        """Return an object of the store, or None if the object is missing or unreadable and must be fetched."""
        if object_id not in self._store:
            return None
        try:
            frames, block = self._store.find(object_id)
        except OSError as error:
            logger.warning("object %s is fetched again: %s", object_id.hex(), error)
            return None
        self._make_room()
        return CachedObject(object_id, frames, block)

    @handles(Batch[ObjectResponse])
    def _responses(self, responses: Batch[ObjectResponse]) -> None:
        for response in responses:
            waiting = self._waiting.pop(response.object_id, None)
            if waiting is None:
                continue  # no worker waits for it
            if response.object_id in self._values:
                self._found(response.object_id, waiting)  # a task of this node has made it meanwhile
            elif response.found and response.location:
                self._open_shared(response, waiting)
            elif response.found and response.frames and self._may_be_kept(response.object_id, response.frames):
                self._take(response, waiting)
            else:
                self._lost(response.object_id, waiting, response.reason)

    def _take(self, response: ObjectResponse, waiting: list[ActorRef]) -> None:
        try:
            self._store.take(response.object_id, response.frames)
        except MemoryError:
            reason = f"its worker's host has no memory for its {size_of(response.frames):,} bytes"
        except ObjectTooLargeError as error:
            reason = str(error)
        else:
            self._found(response.object_id, waiting)
            return
        logger.error("an object that tasks need cannot be stored on this host: %s", reason)
        self._lost(response.object_id, waiting, reason)

    def _may_be_kept(self, object_id: ObjectId, frames: Frames) -> bool:
        """Return whether an object may be stored: if it is used as a function, its content must match its id."""
        if object_id not in self._called or content_id(frames) == object_id:
            return True
        logger.warning("the content received for function %s does not match its id: it is not stored", object_id.hex())
        return False

    def _lost(self, object_id: ObjectId, waiting: list[ActorRef], reason: str) -> None:
        self._called.discard(object_id)
        for worker in waiting:
            worker.send(ObjectUnavailable(object_id, reason))

    def _found(self, object_id: ObjectId, waiting: list[ActorRef]) -> None:
        stored = self._stored(object_id)
        for worker in waiting:
            worker.send(ObjectUnavailable(object_id) if stored is None else ObjectFound(stored))

    def _open_shared(self, response: ObjectResponse, waiting: list[ActorRef]) -> None:
        """Open an object in the memory of its client. If that is impossible, request the bytes of the object."""
        try:
            block = SharedBlock.open(response.location)
            if not self._may_be_kept(response.object_id, block.map()):
                raise OSError("its content does not match its id")
        except OSError as error:
            logger.debug("object %s is requested as bytes, not as memory: %s", response.object_id.hex(), error)
            self._waiting[response.object_id] = waiting
            self._link.send(FetchForWorker(response.object_id, by_value=True))
        else:
            self._store.take_foreign(response.object_id, block)
            self._found(response.object_id, waiting)

    @handles(Batch[ObjectInstruction])
    def _instructions(self, instructions: Batch[ObjectInstruction]) -> None:
        deleted = [item for item in instructions if item.kind == InstructionKind.DELETE]
        gone = [item.object_id for item in deleted if self._drop(item.object_id, item.location)]
        self._called.difference_update(gone)
        self._forget(gone)
        self._make_room()
        self._resume_if_not_full()
        if any(item.location for item in deleted):
            self._paused_workers.let_one_start(self.now())

    def _drop(self, object_id: ObjectId, location: bytes) -> bool:
        """Drop this node's result that has this location. If the location is empty, drop the copy of the object."""
        self._supplied.pop((object_id, location), None)
        if location:
            return self._values.drop(object_id, location)
        return object_id not in self._values and self._store.drop(object_id)

    @handles(ValuesKept)
    def _values_kept(self, kept: ValuesKept) -> None:
        """Pause these workers if the store exceeds its budget, unless this node stores only one result."""
        for object_id in [each for each in self._waiting if each in self._values]:  # made here meanwhile
            self._found(object_id, self._waiting.pop(object_id))
        self._make_room()
        if not self._store.is_over() or not self._can_pause or len(self._values) < 2:
            return
        self._paused_workers.pause(kept.workers, self.now())
        self._report_paused()

    def _resume_if_not_full(self) -> None:
        if self._store.is_over() or not self._paused_workers.resume_all():
            return
        self._report_paused()
        if self._is_full:
            self._is_full = False
            logger.info("objects: memory is free again, and all workers resume")

    def _report_paused(self) -> None:
        if len(self._paused_workers.held) != self._n_paused:
            self._n_paused = len(self._paused_workers.held)
            self._link.send(PausedChanged(self._n_paused))

    def _log_full(self) -> None:
        if self._paused_workers.held and not self._is_full:
            self._is_full = True
            logger.warning(
                "objects: memory and disk are full (at most %s bytes in memory): %d of %d workers are paused until "
                "results are read or deleted",
                f"{self._store.hot_most:,}",
                len(self._paused_workers.held),
                len(self._workers),
            )

    @handles(Batch[ObjectRequest])
    def _supply(self, requests: Batch[ObjectRequest]) -> None:
        self._link.send(ObjectsSupplied([self._response(request.object_id) for request in requests]))
        self._make_room()

    def _response(self, object_id: ObjectId) -> ObjectResponse:
        reason = GONE
        if object_id in self._store:
            try:
                return ObjectResponse(object_id, FOUND, self._store.frames(object_id))
            except (OSError, MemoryError) as error:
                reason = f"its host cannot read it: {error}"
        return ObjectResponse(object_id, NOT_FOUND, (), reason=reason)

    @handles(Batch[PartRequest])
    def _supply_parts(self, requests: Batch[PartRequest]) -> None:
        parts = [part for request in requests if (part := self._part(request)) is not None]
        if parts:
            self._link.send(PartsSupplied(parts))

    def _part(self, request: PartRequest) -> ObjectPart | None:
        object_id, offset = request.object_id, request.offset
        if request.location and not self._values.is_at(object_id, request.location):
            if object_id in self._values:
                return None  # a newer value, whose location the scheduler receives
            reason = GONE
        elif object_id not in self._store:
            reason = GONE
        else:
            try:
                frames = self._frames_to_supply(object_id, request.location)
            except (OSError, MemoryError) as error:
                reason = f"its host cannot read it: {error}"
            else:
                sizes = b"" if offset else sizes_of(frames)
                part = part_of(frames, offset, request.most_bytes)
                return ObjectPart(object_id, request.location, offset, sizes, (part,))
        return ObjectPart(object_id, request.location, offset, b"", (), reason)

    def _frames_to_supply(self, object_id: ObjectId, location: bytes) -> Frames:
        key = object_id, location
        frames = self._supplied.get(key)
        if frames is None:
            if not self._supplied:
                self.schedule(SUPPLIED_SECONDS, _SupplyLook())
            frames = self._supplied[key] = self._store.frames(object_id)
            self._make_room()
        self._supplied_lately.add(key)
        return frames

    @handles(_SupplyLook)
    def _look_at_supplied(self, look: _SupplyLook) -> None:
        self._supplied = {each: frames for each, frames in self._supplied.items() if each in self._supplied_lately}
        self._supplied_lately.clear()
        if self._supplied:
            self.schedule(SUPPLIED_SECONDS, look)

    @handles(HandOverValues)
    def _hand_over(self, over: HandOverValues) -> None:
        responses: list[ObjectResponse] = []
        left = (object_id for object_id in self._values.ids() if object_id not in self._handed_over)
        while sum(size_of(each.frames) for each in responses) < HAND_OVER_BYTES:
            object_id = next(left, None)
            if object_id is None:
                break
            self._handed_over.add(object_id)
            responses.append(self._response(object_id))
        self._make_room()
        if responses:
            self._link.send(ObjectsSupplied(responses))
        self._link.send(over.then if responses else over.at_last)

    @handles(KeepObject)
    def _keep(self, keep: KeepObject) -> None:
        """Keep a result of this node, and report it as a copy to the scheduler, which will delete the copy."""
        object_id = keep.object_id
        if object_id in self._store or not self._may_be_kept(object_id, keep.frames):
            return
        block = block_of(keep.frames)
        try:
            if block is None:
                self._store.take(object_id, keep.frames)
            else:
                self._store.take_block(object_id, block)
        except (MemoryError, ObjectTooLargeError) as error:
            logger.warning("a result cannot be kept on this host for the tasks that need it: %s", error)
            return
        self._found(object_id, self._waiting.pop(object_id, []))
        self._link.send(ObjectsHere([object_id]))

    @handles(ReportKeptObjects)
    def _report_kept_objects(self, _request: ReportKeptObjects) -> None:
        """Report the copies of objects that this node has. Results that were made here are not reported as copies: they
        are sent as results.
        """
        self._handed_over.clear()
        copies = [object_id for object_id in self._store.ids() if object_id not in self._values]
        if copies:
            self._link.send(ObjectsHere(copies))

    def _forget(self, object_ids: list[ObjectId]) -> None:
        if object_ids:
            for worker in self._workers:
                worker.send(ForgetObjects(object_ids))

    # Free dropped objects, and move excess objects to disk

    def _make_room(self) -> None:
        if self._look is not None and self._look.is_pending and self._store.has_dropped:
            self._look.cancel()
            self._look, self._is_making_room = None, False
        if not self._is_making_room and (self._store.has_dropped or self._store.is_over()):
            self._is_making_room = True
            self.actor_ref.send(_MakeRoom())

    @handles(_MakeRoom)
    def _make_room_bit_by_bit(self, room: _MakeRoom) -> None:
        """Free memory in small steps, by timer, so that the agent reads its sockets between two steps."""
        self._look = None
        if self._store.make_room():
            self.schedule(0.0, room)
        elif self._store.is_over():
            if self._store.waits_for_readers():
                for worker in self._workers:
                    worker.send(CollectionDue())  # their processes may have unused objects
            self._log_full()
            self._paused_workers.look(self.now())
            self._report_paused()
            self._look = self.schedule(LOOK_SECONDS, room)
        else:
            self._is_making_room = False
        self._resume_if_not_full()
