"""ObjectTable: the objects that the scheduler knows: where the bytes of each are, who needs it, and who has copies.

Only the object store writes to it, and it outlives that. Others look: the monitor, the census, sessions.
"""

from __future__ import annotations

from scaler.actors.messages.objects import FetchObject, StoreObject
from scaler.actors.objects.copies import Copies, Retained
from scaler.actors.objects.located import LocatedFrames
from scaler.actors.objects.pending_requests import PendingRequests
from scaler.actors.peers.owners import Owner
from scaler.actors.peers.peer import Peer
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import size_at
from scaler.wire.session.streamed import ValueStream

_VALUE, _FUNCTION, _ARGUMENT, _RESULT = range(4)
_HERE, _AT_CLIENT, _AT_AGENT, _LOST = range(4)


class StoredObject:
    """One object and who needs it."""

    __slots__ = (
        "frames", "holders", "is_function", "is_result", "lease", "location", "lost", "name", "others", "owner_session",
        "owners", "payer", "source", "stream", "supplier", "waiting",
    )  # fmt: skip

    def __init__(self, name: str, frames: Frames, is_function: bool) -> None:
        self.name = name
        """of a result that of its function"""
        self.is_function = is_function
        self.is_result = False
        self.waiting: dict[Peer, FetchObject] = {}
        """those that wait for the bytes, in their order: who is back on a new connection asks again"""
        self.stream: ValueStream | None = None
        """the bytes on their way from their agent to who cannot open their location"""
        self.put(frames)
        self.owners: set[ClientId] = set()
        """clients that sent it and have neither deleted it nor left: it is dropped with the last, unless a task uses it
        """
        self.holders: set[ClientId] = set()
        """those of them that hold it; without any, it is dropped with the last task that uses it"""
        self.owner_session: ActorRef | None = None
        """the session of its owner, if it is a result: it is told of a loss"""
        self.payer: Owner | None = None
        """whose quota it counts against"""
        self.supplier: ClientId | None = None
        """the client that stored it, or submitted the task whose result it is: from no other one are bytes taken"""
        self.others: dict[ClientId, StoreObject] = {}
        """what other clients have stored with the same id, each for itself"""

    def put(self, frames: Frames, location: bytes = b"", source: ActorRef | None = None) -> None:
        """Note where the bytes are: here, at a location at a client or an agent, or with an agent that shares none."""
        self.end_stream()
        self.lost = ""
        """why there are none any more"""
        self.lease: LocatedFrames | None = None
        """while this is here, the agent keeps the bytes"""
        if type(frames) is LocatedFrames:
            self.lost, self.lease, location, source = frames.lost, frames, frames.location, frames.host
            frames = ()
        self.frames = frames
        self.location = location
        """where the bytes are, while they are not here"""
        self.source = source
        """the session of that client or agent"""

    def end_stream(self) -> None:
        """No more bytes come from where they were. Who has not got all of them waits once more."""
        stream, self.stream = self.stream, None
        if stream is not None:
            self.waiting |= {frames.reader.peer: frames.reader for frames in stream.withdraw()}

    def begins_anew(self, host: ActorRef) -> bool:
        """A host is gone, or asks again for what it needs; what it was asked for does not come. Return whether those
        that wait are next.
        """
        stream = self.stream
        if stream is None or self.source is None:
            return False
        if stream.source[0] is host is not self.source:
            stream.ask_again((self.source, self.location))
        stream.leave([each for each in stream.readers if each.host is host])
        self.waiting = {peer: fetch for peer, fetch in self.waiting.items() if fetch.host is not host}
        return not stream.is_under_way()

    def is_awaited_by(self, host: ActorRef) -> bool:
        """Whether a host has asked for the bytes, and not all of them have left for it."""
        readers = () if self.stream is None else self.stream.readers
        return any(each.host is host for each in (*self.waiting.values(), *readers))

    @property
    def is_with_agent(self) -> bool:
        """Whether its source is an agent."""
        return self.lease is not None or self.is_with_host

    @property
    def is_with_host(self) -> bool:
        """Whether an agent has the bytes and shares no location."""
        return self.frames == () and not self.location and self.source is not None

    def kind_for(self, client: ClientId | None) -> int:
        """Return what it is for one of its owners: `ObjectInfo.kind`."""
        if self.is_function:
            return _FUNCTION
        if client is not None and client not in self.holders:
            return _ARGUMENT
        return _RESULT if self.is_result else _VALUE

    @property
    def place(self) -> int:
        """Where its bytes are: `ObjectInfo.place`."""
        if self.lost:
            return _LOST
        if self.is_with_agent:
            return _AT_AGENT
        return _AT_CLIENT if self.location else _HERE

    @property
    def size_bytes(self) -> int:
        """Its bytes, those here and those that its client or agent shares."""
        return size_of(self.frames) + self.shared_bytes

    @property
    def shared_bytes(self) -> int:
        """Those that its client or agent shares, as that says."""
        return size_at(self.location) if self.location else 0


class ObjectTable:
    """All objects, by id and by owner, how many tasks use them, and who has copies."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, StoredObject] = {}
        self.owned: dict[ClientId, set[ObjectId]] = {}
        self.leaving: dict[ClientId, None] = {}
        """owners that have left, and whose objects are being disowned: an ordered set"""
        self.users: dict[ObjectId, int] = {}
        """apart from the objects: a task may name one that comes after it, or never"""
        self.copies = Copies()
        self.retained = Retained()
        self.located: dict[ActorRef, dict[ObjectId, None]] = {}
        """which objects only agents have, by the session of the agent: ordered sets"""
        self.graphs: dict[ObjectId, dict[ActorRef, None]] = {}
        """graphs that need objects, and are told if these are lost"""
        self.functions: dict[ObjectId, StoredObject] = {}
        """those of the objects that are functions"""
        self.early = PendingRequests()
        self.lost_last: dict[ObjectId, str] = {}
        """the results that were lost last, and why: a client may ask for one before it hears that"""
        self.size_bytes = 0
        """of all objects together, and of the arguments that travel with open tasks"""
        self.shared_bytes = 0
        """those of them that are in memory that clients and agents share"""

    def count(self, object_id: ObjectId, stored: StoredObject, sign: int) -> None:
        """Add an object and its bytes where it is, or take them off."""
        if stored.source is not None and stored.is_with_agent:
            here = self.located.setdefault(stored.source, {})
            if sign > 0:
                here[object_id] = None
            else:
                here.pop(object_id, None)
            if not here:
                del self.located[stored.source]
        size = stored.size_bytes
        self.size_bytes += sign * size
        if stored.payer is not None:
            stored.payer.count_bytes(sign * size)
        self.shared_bytes += sign * stored.shared_bytes

    def put(
        self,
        object_id: ObjectId,
        stored: StoredObject,
        frames: Frames,
        location: bytes = b"",
        source: ActorRef | None = None,
    ) -> None:
        """The bytes are somewhere else from now on."""
        self.count(object_id, stored, -1)
        stored.put(frames, location, source)
        self.count(object_id, stored, 1)

    def function_name(self, function_id: ObjectId) -> str:
        """Return the name of a function, if it is stored."""
        stored = self.functions.get(function_id)
        return "" if stored is None else stored.name

    def awaited_by(self, host: ActorRef) -> set[ObjectId]:
        """Return the objects that a host has asked for, and that have not left for it: its tasks wait for them."""
        known = ((object_id, self.objects.get(object_id)) for object_id in self.copies.objects.get(host, ()))
        found = {object_id for object_id, stored in known if stored is not None and stored.is_awaited_by(host)}
        return found | self.early.awaited_by(host)

    def payer_of(self, object_id: ObjectId) -> Owner | None:
        """Return whose an object is: only they may read it; None: it is a function, or is not here."""
        stored = self.objects.get(object_id)
        return None if stored is None else stored.payer

    def supplier_of(self, object_id: ObjectId) -> ClientId | None:
        """Return the client that alone may send the bytes of an object; None: it is a function, or is not here."""
        stored = self.objects.get(object_id)
        return None if stored is None or stored.is_function else stored.supplier

    def maker_of(self, object_id: ObjectId) -> ClientId | None:
        """Return the client that has submitted the task whose result is stored; None: it is no result, or not here."""
        stored = self.objects.get(object_id)
        return stored.supplier if stored is not None and stored.is_result else None

    def statistics(self) -> dict[str, int]:
        """Return counts: objects, bytes, owners, functions that only hosts have."""
        return {
            "objects": len(self.objects),
            "object_bytes": self.size_bytes,
            "object_owners": len(self.owned),
            "retained_objects": len(self.retained),
        }
