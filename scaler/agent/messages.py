"""Messages between the actors of an agent. Messages to and from the executor are in `scaler.executors.messages`."""

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
    """Edge to link: the connection to the scheduler is lost."""

    reason: str
    is_locked_out: bool = False
    """whether the scheduler refuses every key of this agent; `reason` explains why"""
    by_scheduler: bool = False
    """whether the refusal certainly comes from the scheduler, and not from another program at its address"""


@message
class LinkUnreadable:
    """Edge to link: received bytes are not a message of a scheduler; the connection is closed."""

    reason: str


@message
class LinkHeard:
    """Edge to link: the scheduler has acknowledged these items, so the scheduler is alive."""

    items: Sequence[Any]


@message
class Leave:
    """The agent must end: the link sends a goodbye."""

    reason: str
    drain_seconds: float = 0.0
    """how long running tasks may take to end; waiting tasks are returned to the scheduler at once"""


@message
class ReportLinkStatistics:
    """To the link, in the urgent lane: add the counts of the link to the report."""

    report: Report


@message
class FetchForWorker:
    """Object cache to link: a worker of this node needs an object."""

    object_id: ObjectId
    by_value: bool = False
    """whether the bytes are requested, because the location of the object could not be opened"""


# To and from the object cache.


@message
class ReportKeptObjects:
    """Link to object cache: report the node's objects to the scheduler, on a new connection."""


@message
class PausedChanged:
    """Object cache to link: the number of workers that are paused for lack of memory for results has changed."""

    held: int


@message
class ValuesKept:
    """Link to object cache: the store has new results of these workers."""

    workers: Collection[int]


@message
class HandOverValues:
    """Link to object cache: supply the next values to hand over. Send back `then`, or `at_last` if no value is left."""

    then: Any
    at_last: Any


@message
class ObjectsSupplied:
    """Object cache to link: objects that the scheduler has requested, or takes over from a node that leaves."""

    responses: Sequence[ObjectResponse]


@message
class PartsSupplied:
    """Object cache to link: parts of values that the scheduler has requested."""

    parts: Sequence[ObjectPart]


@message
class KeepObject:
    """Link to object cache: keep this result, which tasks will need."""

    object_id: ObjectId
    frames: Frames


@message
class ObjectsHere:
    """Object cache to link: the node has a copy of these objects."""

    object_ids: Sequence[ObjectId]
