"""Objects: who stores, needs, has and deletes which."""

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
    """client session or graph -> object store: keep this. `held` by its client until deleted, else as long as tasks use
    it; what a graph stores has no owner. `is_function`: its id says what it is, so it may come again, and hosts keep
    their copies for a while.
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
    """the session of its owner, which asks the client for them, and tells it of a loss"""
    payer: Owner | None = None
    """whose quota it counts against; None: nobody's"""
    function_id: ObjectId | None = None
    """of a result: its function. It is there already, so it is not refused"""
    graph_client: ClientId | None = None
    """of a result that a graph stores: the client of the graph"""

    @property
    def supplier(self) -> ClientId | None:
        """The client that stores the object, or has submitted the task whose result it is."""
        return self.owner or self.graph_client


@message
class SupplyObject:
    """object store -> client or agent session: somebody needs the bytes of an object that is with your peer."""

    object_id: ObjectId


@message
class ObjectCame:
    """agent session -> object store: my agent has sent this, or does not have it. `stays`: it leaves soon, and has sent
    the only frames that there are.
    """

    object_id: ObjectId
    host: ActorRef
    found: bool
    frames: Frames
    reason: str
    stays: bool


@message
class RequestPart:
    """object store -> agent session: readers need the part at `offset` of a value that your agent has: of the result at
    this location, or, without one, of a copy.
    """

    object_id: ObjectId
    location: bytes
    offset: int


@message
class PartCame:
    """agent session -> object store: my agent has sent this part, or does not have the value."""

    host: ActorRef
    part: ObjectPart


@message
class HostHasAll:
    """object store -> itself: a value has left as a whole for this host."""

    object_id: ObjectId
    host: ActorRef


@message
class HostIsBack:
    """agent session -> object store: my agent may not have heard what was asked of it."""

    host: ActorRef


@message
class ObjectLost:
    """object store -> client session, or graphs that need it: an object went with its host. `reason`: which one."""

    object_id: ObjectId
    reason: str


@message
class ValueRefused:
    """object store -> client session: a value of your client was over the quota of its owner."""

    reason: str


@message
class DeleteObject:
    """client session -> object store: this client needs it no more."""

    object_id: ObjectId
    owner: ClientId


@message
class UseObjects:
    """task or graph -> object store: I need these until I say otherwise. `graph`: who is told if one is lost."""

    object_ids: bytes
    graph: ActorRef | None = None


@message
class CountArguments:
    """task or graph -> object store: so many bytes of arguments have come with a call, or, negative, are gone."""

    size_bytes: int
    payer: Owner


@message
class ReleaseObjects:
    """task or graph -> object store: I need these no more. `graph`: as it was said before."""

    object_ids: bytes
    graph: ActorRef | None = None


@message
class FetchObject:
    """session -> object store: send this to my peer. `host`: the session of an agent, which keeps the copy until it is
    told to delete it.
    """

    object_id: ObjectId
    peer: Peer
    host: ActorRef | None
    by_value: bool = False
    """the bytes and not their location"""
    reader: Owner | None = None
    """who wants to read it, if only its owner may: a client outside of tasks"""
    whole: bool = False
    """only all of its bytes at once"""


@message
class CopyKept:
    """agent session -> object store: my agent has a copy of this; it is back on a new connection. `is_early`: it had
    another scheduler, so the client of the object may be still to come.
    """

    object_id: ObjectId
    host: ActorRef
    is_early: bool = False


@message
class DeleteCopy:
    """object store -> agent session: this is not needed any more, have your agent delete its copy; with a location, the
    result that is there.
    """

    object_id: ObjectId
    location: bytes = b""


@message
class HostLeft:
    """agent session -> object store: my agent is gone, and its copies are not mine any more. `reason`: a sentence for
    those who need what only it had.
    """

    host: ActorRef
    reason: str = "its host is gone"


@message
class RetentionEnded:
    """object store -> itself, by timer: copies may have been kept for long enough."""


@message
class OwnerLeft:
    """client session -> object store: forget what this client owns."""

    owner: ClientId


@message
class OwnerResubmits:
    """client session -> object store: this client had another scheduler, and says again what it has stored."""

    owner: ClientId


@message
class OwnerResubmitted:
    """client session -> object store: all of that has come. None, to itself: who has not come back by now is late."""

    owner: ClientId | None
