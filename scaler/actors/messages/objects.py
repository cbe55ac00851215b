"""Objects: messages about storing, fetching, copying and deleting objects."""

from __future__ import annotations

from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef
from scaler.message import message
from scaler.pickling.serialization import Frames
from scaler.wire.messages.common import ObjectPart


@message
class StoreObject:
    """client session or job -> object store: store this object.

    Attributes:
        owner: the client that stores the object; None for a result that only other tasks need.
        held: whether the object is kept until its owner deletes it; if not, it is kept while tasks use it.
        is_function: whether this is a function, which may be stored repeatedly: its id is the hash of its content.
    """

    object_id: ObjectId
    owner: ClientId | None
    name: str
    frames: Frames
    held: bool
    is_function: bool = False
    location: bytes = b""
    """the place where the client keeps the bytes; empty if `frames` has the bytes"""
    source: ActorRef | None = None
    """the session or job to notify if the object is lost; a session also requests the bytes from the client"""
    payer: Owner | None = None
    """the owner whose quota the object counts against; None: no quota"""
    function_id: ObjectId | None = None
    """the function that computed the object, if it is a result; else None. Results are never refused"""
    task_client: ClientId | None = None

    @property
    def supplier(self) -> ClientId | None:
        """The client that stores the object, or that has submitted the task whose result the object is."""
        return self.owner or self.task_client


@message
class SupplyObject:
    """object store -> client or agent session: request the bytes of an object from your peer."""

    object_id: ObjectId


@message
class ObjectCame:
    """agent session -> object store: the agent sent or lacks this object. `stays`: whether to keep the frames."""

    object_id: ObjectId
    host: ActorRef
    found: bool
    frames: Frames
    reason: str
    stays: bool


@message
class RequestPart:
    """object store -> agent session: request the part at `offset` of the result at `location` (empty: of a copy)."""

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
    """object store -> itself: all bytes of a value have been sent to this host."""

    object_id: ObjectId
    host: ActorRef


@message
class ObjectLost:
    """object store -> client session: an object of the client was lost with its host, which `reason` names."""

    object_id: ObjectId
    reason: str


@message
class InputLost:
    """object store -> client session: a result that tasks need was lost with its host, which `reason` names."""

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
    """task or session -> object store: keep these objects until `ReleaseObjects`; notify `session` of lost ones."""

    object_ids: bytes
    session: ActorRef | None = None


@message
class CountArguments:
    """task or session -> object store: arguments of calls of `payer` use `size_bytes` more bytes (negative: fewer)."""

    size_bytes: int
    payer: Owner


@message
class ReleaseObjects:
    """task or session -> object store: end the use of these objects. `session`: that given in `UseObjects`."""

    object_ids: bytes
    session: ActorRef | None = None


@message
class FetchObject:
    """session -> object store: send this object to `peer`. `host`: the session if the peer is an agent; else None."""

    object_id: ObjectId
    peer: Peer
    host: ActorRef | None
    by_value: bool = False
    """whether to send the bytes instead of the location of the bytes"""
    reader: Owner | None = None
    """the owner of the client that reads; the object must belong to this owner. None: any object may be read"""
    whole: bool = False
    """whether the bytes must arrive in one message, not in parts"""


@message
class CopyKept:
    """agent session -> object store: a reconnected agent has this copy. `is_early`: owners may still reconnect."""

    object_id: ObjectId
    host: ActorRef
    is_early: bool = False


@message
class DeleteCopy:
    """object store -> agent session: delete the result at `location` (empty: the copy of this object)."""

    object_id: ObjectId
    location: bytes = b""


@message
class HostLeft:
    """agent session -> object store: the session of the agent has ended, or the agent has started over.

    Attributes:
        reason: why values that no other host has are lost; empty: the agent has started over, and none is lost. It
            requests objects again, and may have missed requests.
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
    """client session -> object store: this client has submitted all its objects again.

    If `owner` is None, object store -> itself, by timer: do not wait for further clients.
    """

    owner: ClientId | None
