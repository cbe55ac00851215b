"""Messages between the actors of an agent, and between them and the executor of a node.

    Link <--> executor
      ^          ^
      +-> ObjectCache

Each executor defines its own internal messages. Messages between processes are in `scaler.wire.messages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scaler.ids import ObjectId
from scaler.message import message

if TYPE_CHECKING:
    from scaler.agent.view import View
    from scaler.kit import ActorRef
    from scaler.pickling.serialization import Frames
    from scaler.process.report import Report
    from scaler.shared_memory import SharedBlock
    from scaler.wire.messages.worker import RecallRequest, RunCancel


# To and from the link.


@message
class LinkCut:
    """The connection to the scheduler is lost."""

    reason: str


@message
class LinkGarbled:
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
class SayStatistics:
    """To the link, in the urgent lane: add your counts to the report."""

    report: Report


@message
class ExecutorProcessGone:
    """A process of the executor is gone in which clients may have been, by the number that it had."""

    number: int


@message
class CapacityChanged:
    """Executor to link: so many tasks can run at once now."""

    places: int


@message
class RunsNotHere:
    """Executor to link: it was told to end or give back these runs, and does not have them."""

    runs: Sequence[RunCancel | RecallRequest]


@message
class FetchObject:
    """A worker of this node needs an object."""

    object_id: ObjectId
    by_value: bool = False
    """its location could not be opened"""


@message
class SayRuns:
    """To the workers, in the urgent lane: add to the view which runs you execute, and in which processes."""

    view: View


@message
class BeginAnew:
    """Link to workers: replace your processes by fresh ones, each after the tasks that it has."""


# To and from the object cache.


@message
class NeedObject:
    object_id: ObjectId
    worker: ActorRef
    is_function: bool = False
    """a task calls it, so its content must match its id"""


@message
class StoredObject:
    """An object of the node's cache: its frames, or the memory that all processors share."""

    object_id: ObjectId
    frames: Sequence[bytes]
    block: SharedBlock | None


@message
class ObjectFound:
    stored: StoredObject


@message
class ObjectLost:
    """The scheduler does not have the object either, or there is no memory for it here."""

    object_id: ObjectId
    reason: str = ""
    """empty: it was deleted, or never stored"""

    def sentence(self) -> str:
        """Return what to say of a task that needs it."""
        what = f"object {self.object_id.hex()} that the task needs is not "
        return f"{what}here: {self.reason}" if self.reason else f"{what}stored any more"


@message
class ForgetObjects:
    """They are deleted: the cache forgot them, and processors must too."""

    object_ids: Sequence[ObjectId]


@message
class SayWhatIsKept:
    """A scheduler is there, on a new connection: what does the node have?"""


@message
class KeepObject:
    """The link to the cache: tasks will need this result, which is still here."""

    object_id: ObjectId
    frames: Frames


@message
class ObjectsHere:
    """The objects of which the node has a copy."""

    object_ids: Sequence[ObjectId]


@message
class CollectionDue:
    """An interval is over: objects that were not used in it can be dropped."""
