"""Messages between the actors of an agent.

Those between them and the executor of a node are in `scaler.executors.messages`, those between processes in
`scaler.wire.messages`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from scaler.ids import ObjectId
from scaler.message import message

if TYPE_CHECKING:
    from scaler.pickling.serialization import Frames
    from scaler.process.report import Report
    from scaler.wire.messages.common import ObjectPart, ObjectResponse


# To and from the link.


@message
class LinkLost:
    """The connection to the scheduler is lost."""

    reason: str
    is_locked_out: bool = False
    """whether the scheduler refuses every key that this agent has; `reason` tells why"""
    by_scheduler: bool = False
    """whether that is certain to be the answer of the scheduler, and not of another program at its address"""


@message
class LinkUnreadable:
    """Bytes came that are not a message of a scheduler; the connection is closed."""

    reason: str


@message
class LinkHeard:
    """Something came from the scheduler, and it has heard these items."""

    items: Sequence[Any]


@message
class Leave:
    """The agent must end: send a goodbye."""

    reason: str
    drain_seconds: float = 0.0
    """how long running tasks have for their end; waiting tasks are given back at once"""


@message
class ReportLinkStatistics:
    """To the link, in the urgent lane: add your counts to the report."""

    report: Report


@message
class FetchForWorker:
    """A worker of this node needs an object."""

    object_id: ObjectId
    by_value: bool = False
    """its location could not be opened"""


# To and from the object cache.


@message
class ReportKeptObjects:
    """A scheduler is there, on a new connection: what does the node have?"""


@message
class PausedChanged:
    """Object cache to link: so many workers begin nothing now, because there is no room for results."""

    held: int


@message
class ValuesKept:
    """The link to the cache: there is more in the store, with results of these workers."""

    workers: Collection[int]


@message
class HandOverValues:
    """The link to the cache: the node leaves. Give some of the values away that only it has, and send me `then`; if
    none is left to be given away, `at_last`.
    """

    then: Any
    at_last: Any


@message
class ObjectsSupplied:
    """The cache to the link: objects for the scheduler, which has asked for them, or is to have them now."""

    responses: Sequence[ObjectResponse]


@message
class PartsSupplied:
    """The cache to the link: parts of values, which the scheduler has asked for."""

    parts: Sequence[ObjectPart]


@message
class KeepObject:
    """The link to the cache: tasks will need this result, which is still here."""

    object_id: ObjectId
    frames: Frames


@message
class ObjectsHere:
    """The objects of which the node has a copy."""

    object_ids: Sequence[ObjectId]
