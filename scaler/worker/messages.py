"""What the actors of an agent tell each other. What crosses a process boundary is in `scaler.wire.messages`.

Link <--> Slot <--> ProcessorProxy <--> ProcessStarter
  ^       ^  |
  |       |  +--> Pool
  +-> ObjectCache
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from scaler.ids import ObjectId
from scaler.message import message

if TYPE_CHECKING:
    from scaler.actors.kit import ActorRef
    from scaler.serialization import Frames
    from scaler.shared_memory import SharedBlock
    from scaler.wire.messages.worker import RunResults, RunTask
    from scaler.worker.progress import Progress


# To and from the link.


@message
class LinkCut:
    """The connection to the scheduler is lost."""

    reason: str


@message
class Leave:
    """The agent shall end: say goodbye."""

    reason: str


@message
class FetchObject:
    """Somebody on this node needs an object."""

    object_id: ObjectId
    by_value: bool = False
    """its location was no use"""


# To and from the object cache.


@message
class NeedObject:
    object_id: ObjectId
    slot: ActorRef


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
    """The scheduler does not have it either."""

    object_id: ObjectId


@message
class ForgetObjects:
    """They are deleted: the cache forgot them, and processors must too."""

    object_ids: Sequence[ObjectId]


@message
class SayWhatIsKept:
    """The same scheduler is there again, on a new connection: what does the node have?"""


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
class ForgetEverything:
    """Another scheduler took over, which knows nothing of what is stored here."""


@message
class CollectionDue:
    """An interval is over: what nobody used in it can be forgotten."""


# Between slot, pool, processor proxy and process starter. A new processor has the address of the one before, so all
# these carry the number of the one that is meant, which is never used again.


@message
class AddProcessor:
    """slot -> pool: I need one more."""

    slot: int


@message
class ProcessorComing:
    """It is being started."""

    number: int
    is_extra: bool


@message
class ProcessorNotComing:
    """It has ended before it was up."""

    number: int


@message
class ProcessorUp:
    """A new processor waits for work."""

    number: int
    processor: ActorRef
    progress: Progress
    is_extra: bool
    """a slot has asked for it: when it ends, no other one is started"""


@message
class ProcessorDown:
    """The processor is dead; everything that it had sent before was handed on first."""

    number: int
    executing: int
    """the number of the task that was being executed, counted from 1 for each processor; 0: none"""
    reason: str
    """how it ended: a part of a sentence"""


@message
class ProcessorStays:
    """It was to end and does not, because it is needed."""

    number: int


@message
class TasksFinished:
    number: int
    results: RunResults


@message
class TaskWaits:
    """A task waits for others."""

    number: int
    task: int
    """counted from 1 for each processor"""
    is_stuck: bool
    """it does not go on before it is told to"""
    wait: int = 0
    """the number of the wait, if the process may be stopped meanwhile; 0: it may not"""
    timeout_seconds: float = inf
    """after so long the wait ends in any case"""


@message
class TaskAsks:
    """What a task waited for is there."""

    number: int
    task: int


@message
class TaskGoesOn:
    """No thread of the task waits any more."""

    number: int
    task: int


@message
class ResumeProcessor:
    """Let the task go on."""

    number: int
    task: int


@message
class DismissProcessor:
    """It is not needed any more."""

    number: int


@message
class HandTasks:
    number: int
    tasks: Sequence[RunTask]


@message
class HandObject:
    number: int
    stored: StoredObject


@message
class DropObjects:
    number: int
    object_ids: Sequence[ObjectId]


@message
class CleanProcessor:
    """Have it collect its garbage, and give back memory that it does not use."""

    number: int


@message
class InterruptProcessor:
    """Have the processor look at its progress page for a task to interrupt."""

    number: int


@message
class PauseProcessor:
    """Stop the whole process, or have it go on."""

    number: int
    is_stopped: bool


@message
class KillProcessor:
    number: int
    reason: str


@message
class StartProcess:
    """Start a processor process; its channel and progress page are handed over and closed here."""

    number: int
    processor: ActorRef
    channel: int
    progress: int
    is_extra: bool


@message
class InterruptProcess:
    number: int


@message
class PauseProcess:
    number: int
    is_stopped: bool


@message
class KillProcess:
    number: int


@message
class ProcessStarted:
    number: int
    pid: int


@message
class ProcessEnded:
    number: int
    exit_code: int
    """negative: the number of the signal that ended it"""
