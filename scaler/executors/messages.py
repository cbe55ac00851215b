"""Messages between the agent and the executor of its node; `executor.py` says which goes where.

    Link <--> executor <--> ObjectCache

Each executor defines its own internal messages. Messages between processes are in `scaler.wire.messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaler.ids import ObjectId
from scaler.message import message

if TYPE_CHECKING:
    from scaler.kit import ActorRef
    from scaler.shared_memory import SharedBlock
    from scaler.wire.messages.worker import RecallRequest, RunCancel, RunTask

# With the link.


@message
class ExecutorProcessGone:
    """A process of the executor is gone in which clients may have been, by the number that it had."""

    number: int


@message
class CapacityChanged:
    """Executor to link: so many tasks can run at once now."""

    capacity: int


@message
class RunsNotHere:
    """Executor to link: it was told to end or give back these runs, and does not have them."""

    runs: Sequence[RunCancel | RecallRequest]


@dataclass
class ProcessNow:
    """A process of a worker, or a thread, and what it executes."""

    worker: int
    pid: int
    """0: it has none of its own"""
    task: RunTask | None
    ran_seconds: float
    is_waiting: bool
    """its task waits for others, and holds no place"""


@dataclass
class WorkersView:
    """What the workers of a node do now. The agent makes it, they add their parts, and nobody keeps it."""

    processes: list[ProcessNow] = field(default_factory=list)


@message
class ReportRuns:
    """To the workers, in the urgent lane: add to the view which runs you execute, and in which processes."""

    view: WorkersView


@message
class SplitRows:
    """Executor to link: each row of these tasks is a run of its own from now on."""

    tasks: Sequence[RunTask]


@message
class SplitAll:
    """Link to workers: each row that you have is a run of its own from now on."""


@message
class RestartProcesses:
    """Link to workers: replace your processes by fresh ones, each after the tasks that it has."""


# With the object cache.


@message
class PauseTasks:
    """Object cache to workers: there is no room for further results. Begin only tasks of which `may_begin` says so,
    until it is None.
    """

    may_begin: Callable[[RunTask], bool] | None


@message
class NeedObject:
    object_id: ObjectId
    worker: ActorRef
    is_function: bool = False
    """a task calls it, so its content must match its id"""


@message
class CachedObject:
    """An object of the node's cache: its frames, or the memory that all processors share."""

    object_id: ObjectId
    frames: Sequence[bytes]
    block: SharedBlock | None


@message
class ObjectFound:
    stored: CachedObject


@message
class ObjectUnavailable:
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
class CollectionDue:
    """An interval is over: objects that were not used in it can be dropped."""
