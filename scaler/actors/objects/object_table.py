"""ObjectTable: the objects that the scheduler knows: where the bytes of each are, who needs it, and who has copies.

Changed only by the object store, and kept if that actor restarts. Read by the monitor, the census and sessions.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict

from scaler.actors.messages.objects import FetchObject, StoreObject
from scaler.actors.objects.copies import Copies, Retained
from scaler.actors.objects.located import LocatedFrames
from scaler.actors.objects.pending_requests import PendingRequests
from scaler.actors.vocabulary.function_ends import FUNCTIONS_MOST
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import size_at
from scaler.wire.session.streamed import ValueStream

_VALUE, _FUNCTION, _ARGUMENT, _RESULT = range(4)
_HERE, _AT_CLIENT, _AT_AGENT, _LOST = range(4)


class StoredObject:
    """One object: where its bytes are, and which clients and tasks need it."""

    __slots__ = (
        "frames", "holders", "is_function", "is_result", "lease", "location", "lost", "name", "other_clients",
        "owner_session", "owners", "payer", "source", "stream", "supplier", "waiting",
    )  # fmt: skip

    def __init__(self, name: str, frames: Frames, is_function: bool) -> None:
        self.name = name
        """the name of the object; of a result, the name of the function"""
        self.is_function = is_function
        self.is_result = False
        self.waiting: dict[Peer, FetchObject] = {}
        """pending requests for the bytes, by peer, in the order of arrival; a reconnected peer sends a new request"""
        self.stream: ValueStream | None = None
        self.put(frames)
        self.owners: set[ClientId] = set()
        """clients that sent the object and still need it; without owners, the object may still be used by tasks"""
        self.holders: set[ClientId] = set()
        """the owners that keep the object even if no task uses it; without holders, its last task drops the object"""
        self.owner_session: ActorRef | None = None
        """of a result: the session of the client that owns the result, to which a loss is reported"""
        self.payer: Owner | None = None
        self.supplier: ClientId | None = None
        """the only client that may send the bytes: it stored the object, or submitted the task of the result"""
        self.other_clients: dict[ClientId, StoreObject] = {}
        """values that other clients have stored with the same id, each for that client alone"""

    def put(self, frames: Frames, location: bytes = b"", source: ActorRef | None = None) -> None:
        """Set where the bytes are: in this process, at a location, or at an agent without a location."""
        self.end_stream()
        self.lost = ""
        """why the bytes are lost; empty while the bytes exist"""
        self.lease: LocatedFrames | None = None
        """the reference that makes the agent keep the bytes; None if no agent keeps them"""
        if type(frames) is LocatedFrames and frames.handed_over:
            frames = frames.handed_over
        elif type(frames) is LocatedFrames:
            self.lost, self.lease, location, source = frames.lost, frames, frames.location, frames.host
            frames = ()
        self.frames = frames
        self.location = location
        """where processes of the host find the bytes; empty if the bytes are in this process, or have no location"""
        self.source = source
        """the session of the client or agent that has the bytes"""

    def end_stream(self) -> None:
        """End the stream. Readers without the whole value become pending requests again."""
        stream, self.stream = self.stream, None
        if stream is not None:
            self.waiting |= {frames.reader.peer: frames.reader for frames in stream.withdraw()}

    def reset_host(self, host: ActorRef) -> bool:
        """Drop the requests of a lost or reconnected host, and stop reading from it.

        Return whether pending requests of other peers must be answered now, because no host reads the value any longer.
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
        """Return whether a host has requested the bytes, and has not received all of them."""
        readers = () if self.stream is None else self.stream.readers
        return any(each.host is host for each in (*self.waiting.values(), *readers))

    @property
    def is_with_agent(self) -> bool:
        """Whether an agent has the bytes."""
        return self.lease is not None or self.is_with_host

    @property
    def is_with_host(self) -> bool:
        """Whether an agent has the bytes, and other processes of its host have no location to open."""
        return self.frames == () and not self.location and self.source is not None

    def kind_for(self, client: ClientId | None) -> int:
        """Return the kind of the object for one of its owners, as in `ObjectInfo.kind`."""
        if self.is_function:
            return _FUNCTION
        if client is not None and client not in self.holders:
            return _ARGUMENT
        return _RESULT if self.is_result else _VALUE

    @property
    def place(self) -> int:
        """Where the bytes of the object are, as in `ObjectInfo.place`."""
        if self.lost:
            return _LOST
        if self.is_with_agent:
            return _AT_AGENT
        return _AT_CLIENT if self.location else _HERE

    @property
    def size_bytes(self) -> int:
        """The size of the object: bytes in this process, and in shared memory of its client or agent."""
        return size_of(self.frames) + self.shared_bytes

    @property
    def shared_bytes(self) -> int:
        """The bytes of the object in shared memory of its client or agent, as reported by that peer."""
        return size_at(self.location) if self.location else 0


class ObjectTable:
    """All objects by id and by owner, the number of tasks that use each, and the hosts with copies."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, StoredObject] = {}
        self.owned: dict[ClientId, set[ObjectId]] = {}
        self.leaving: dict[ClientId, None] = {}
        """owners that have left and still own objects: a dict as an ordered set"""
        self.users: dict[ObjectId, int] = {}
        """number of tasks that use each object, also of objects that have not been stored"""
        self.copies = Copies()
        self.retained = Retained()
        self.located: dict[ActorRef, dict[ObjectId, None]] = {}
        """objects whose bytes only agents have, by the session of the agent: dicts as ordered sets"""
        self.sessions: dict[ObjectId, dict[ActorRef, None]] = {}
        self.functions: dict[ObjectId, StoredObject] = {}
        self._former_names: OrderedDict[ObjectId, str] = OrderedDict()
        """the names of the functions that were removed last: their tasks may end after that"""
        self.pending = PendingRequests()
        self.recently_lost: dict[ObjectId, str] = {}
        self.size_bytes = 0
        """bytes of all objects, and of the arguments of open tasks"""
        self.shared_bytes = 0

    def count(self, object_id: ObjectId, stored: StoredObject, sign: int) -> None:
        """Add an object to the totals, or subtract it. `sign`: 1 to add, -1 to subtract."""
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
        """Change where the bytes of an object are."""
        self.count(object_id, stored, -1)
        stored.put(frames, location, source)
        self.count(object_id, stored, 1)

    def function_name(self, function_id: ObjectId) -> str:
        """Return the name of a function; empty if the function is not stored, and was removed long ago."""
        stored = self.functions.get(function_id)
        return self._former_names.get(function_id, "") if stored is None else stored.name

    def remove_function(self, function_id: ObjectId) -> None:
        """Remove a function, and remember its name."""
        stored = self.functions.pop(function_id, None)
        if stored is not None:
            self._former_names[function_id] = stored.name
            if len(self._former_names) > FUNCTIONS_MOST:
                self._former_names.popitem(last=False)

    def awaited_by(self, host: ActorRef) -> set[ObjectId]:
        """Return the objects that a host has requested and not received. Tasks at the host wait for these objects."""
        known = ((object_id, self.objects.get(object_id)) for object_id in self.copies.objects.get(host, ()))
        found = {object_id for object_id, stored in known if stored is not None and stored.is_awaited_by(host)}
        return found | self.pending.awaited_by(host)

    def payer_of(self, object_id: ObjectId) -> Owner | None:
        """Return the owner who alone may read an object; None for functions and unknown objects."""
        stored = self.objects.get(object_id)
        return None if stored is None else stored.payer

    def supplier_of(self, object_id: ObjectId) -> ClientId | None:
        """Return the client that alone may send the bytes of an object; None for functions and unknown objects."""
        stored = self.objects.get(object_id)
        return None if stored is None or stored.is_function else stored.supplier

    def maker_of(self, object_id: ObjectId) -> ClientId | None:
        """Return the client that submitted the task of a stored result; None for other objects and unknown ids."""
        stored = self.objects.get(object_id)
        return stored.supplier if stored is not None and stored.is_result else None

    def result_bytes(self, object_id: ObjectId, client: ClientId) -> int | None:
        """Return the size of a result that a client has not dropped, at least 1: of a copy on a host it is unknown.

        Return None if the result is lost, or the object is no result of the client.
        """
        stored = self.objects.get(object_id)
        is_known = stored is not None and stored.is_result and stored.supplier == client and client in stored.owners
        return max(1, stored.size_bytes) if stored is not None and is_known and not stored.lost else None

    def check(self) -> None:
        """Assert that the tables agree, and that no object or copy is kept without need."""
        owned: defaultdict[ClientId, set[ObjectId]] = defaultdict(set)
        for object_id, stored in self.objects.items():
            assert stored.holders <= stored.owners
            assert stored.owners or object_id in self.users, f"{object_id!r} is stored, but not needed"
            for owner in stored.owners | stored.other_clients.keys():
                owned[owner].add(object_id)
        assert self.owned == owned
        for object_id, hosts in self.copies.hosts.items():
            assert all(object_id in self.copies.objects[host] for host in hosts)
            assert object_id in self.objects or object_id in self.retained, f"copies of {object_id!r} are not needed"
        assert self.retained.ends.keys() <= self.copies.hosts.keys(), "a function is retained, but has no copies"

    def statistics(self) -> dict[str, int]:
        """Return the numbers of objects, of their bytes and owners, and of functions that exist only on hosts."""
        return {
            "objects": len(self.objects),
            "object_bytes": self.size_bytes,
            "object_owners": len(self.owned),
            "retained_objects": len(self.retained),
        }
