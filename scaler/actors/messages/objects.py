"""Objects: messages about storing, fetching, copying and deleting objects."""

from __future__ import annotations

from scaler.actors.peers.owners import Owner
from scaler.actors.peers.peer import Peer
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef
from scaler.message import message
from scaler.pickling.serialization import Frames
from scaler.wire.messages.common import ObjectPart


@message
class StoreObject:
    """client session or graph -> object store: store this object. `held`: until its client deletes it, else while tasks
    use it. What a graph stores has no owner. `is_function`: the id is the hash of the content, so it may be stored
    repeatedly, and hosts retain copies.
    """

    object_id: ObjectId
    owner: ClientId | None
    name: str
    frames: Frames
    held: bool
    is_function: bool = False
    location: bytes = b""
    """where the client keeps the bytes, if there are no frames"""
    source: ActorRef | None = None
    """the session of its owner, which requests the bytes from the client and reports their loss to it"""
    payer: Owner | None = None
    """the owner whose quota it counts against; None: no quota"""
    function_id: ObjectId | None = None
    """the function of a result. A result is never refused, since it exists already"""
    graph_client: ClientId | None = None
    """the client of the graph that stores a result"""

    @property
    def supplier(self) -> ClientId | None:
        """The client that stores the object, or has submitted the task whose result it is."""
        return self.owner or self.graph_client


@message
class SupplyObject:
    """object store -> client or agent session: request the bytes of an object from your peer."""

    object_id: ObjectId


@message
class ObjectCame:
    """agent session -> object store: the agent has sent this object, or does not have it. `stays`: the store keeps the
    frames, because the agent leaves soon.
    """

    object_id: ObjectId
    host: ActorRef
    found: bool
    frames: Frames
    reason: str
    stays: bool


@message
class RequestPart:
    """object store -> agent session: request the part at `offset` of a value from the agent. `location`: of the result;
    empty for a copy.
    """

    object_id: ObjectId
    location: bytes
    offset: int


@message
class PartCame:
    """agent session -> object store: the agent has sent this part, or does not have the value."""

    host: ActorRef
    part: ObjectPart


@message
class HostHasAll:
    """object store -> itself: a value has been sent completely to this host."""

    object_id: ObjectId
    host: ActorRef


@message
class HostIsBack:
    """agent session -> object store: the agent has reconnected, and may have missed requests."""

    host: ActorRef


@message
class ObjectLost:
    """object store -> client session, or graphs that need it: an object was lost with the host that `reason` names."""

    object_id: ObjectId
    reason: str


@message
class ValueRefused:
    """object store -> client session: a value of the client exceeded the quota of its owner."""

    reason: str


@message
class DeleteObject:
    """client session -> object store: this client no longer needs the object."""

    object_id: ObjectId
    owner: ClientId


@message
class UseObjects:
    """task or graph -> object store: keep these objects until `ReleaseObjects`. `graph`: is notified of losses."""

    object_ids: bytes
    graph: ActorRef | None = None


@message
class CountArguments:
    """task or graph -> object store: add the bytes of a call's arguments; a negative number subtracts them."""

    size_bytes: int
    payer: Owner


@message
class ReleaseObjects:
    """task or graph -> object store: end the use of these objects. `graph`: as in `UseObjects`."""

    object_ids: bytes
    graph: ActorRef | None = None


@message
class FetchObject:
    """session -> object store: send this object to the peer. `host`: the session of an agent, which keeps the copy."""

    object_id: ObjectId
    peer: Peer
    host: ActorRef | None
    by_value: bool = False
    """whether the bytes are sent instead of their location"""
    reader: Owner | None = None
    """the reader, if only the owner of the object may read it: a client outside of tasks"""
    whole: bool = False
    """whether the bytes are sent only as a whole"""


@message
class CopyKept:
    """agent session -> object store: a reconnected agent has a copy of this object. `is_early`: the agent had another
    scheduler, so the client of the object may not have returned yet.
    """

    object_id: ObjectId
    host: ActorRef
    is_early: bool = False


@message
class DeleteCopy:
    """object store -> agent session: have the agent delete its copy of this object, or the result at `location`."""

    object_id: ObjectId
    location: bytes = b""


@message
class HostLeft:
    """agent session -> object store: the agent has left with its copies. `reason`: for users of values that only it
    had.
    """

    host: ActorRef
    reason: str = "its host is gone"


@message
class RetentionEnded:
    """object store -> itself, by timer: delete copies whose retention has ended."""


@message
class OwnerLeft:
    """client session -> object store: forget the objects of this client."""

    owner: ClientId


@message
class OwnerResubmits:
    """client session -> object store: this client had another scheduler, and submits its objects again."""

    owner: ClientId


@message
class OwnerResubmitted:
    """client session -> object store: this client has submitted all its objects again. With None, object store ->
    itself, by timer: do not wait for further clients.
    """

    owner: ClientId | None
