"""Messages between the agent and the executor of its node, as the contract in `executor.py` describes them."""

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
    """Executor to link: the process with this number, in which clients may have been, has ended."""

    number: int


@message
class CapacityChanged:
    """Executor to link: how many tasks can run at once now."""

    capacity: int


@message
class RunsNotHere:
    """Executor to link: a request to cancel or recall named these runs, and the worker has none of them."""

    runs: Sequence[RunCancel | RecallRequest]


@dataclass
class ProcessNow:
    """The task that a process or a thread of a worker executes now."""

    worker: int
    pid: int
    """the process id; 0: tasks run in threads of the agent, or in processes of an engine"""
    task: RunTask | None
    ran_seconds: float
    is_waiting: bool
    """whether the task is blocked, and has given up its slot"""


@dataclass
class WorkersView:
    """The running tasks of a node's workers. The agent creates a view for one request, and the workers fill it."""

    processes: list[ProcessNow] = field(default_factory=list)


@message
class ReportRuns:
    """Link to workers, in the urgent lane: each worker adds its runs and their processes to the view."""

    view: WorkersView


@message
class RestartProcesses:
    """Link to workers: replace each process of the worker when the tasks that the process has now have ended."""


# With the object cache.


@message
class PauseTasks:
    """Object cache to workers: start only tasks for which `may_start` is true; None: the pause has ended."""

    may_start: Callable[[RunTask], bool] | None


@message
class NeedObject:
    object_id: ObjectId
    worker: ActorRef
    is_function: bool = False
    """whether the object is a function that a task calls: the id of a function must match its content"""


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
    """Object cache to workers: the node cannot get an object, or has no memory for the object."""

    object_id: ObjectId
    reason: str = ""
    """why the node cannot get the object; empty: the object was deleted, or never stored"""

    def sentence(self) -> str:
        """Return the error text of a task that needs the object."""
        what = f"object {self.object_id.hex()} that the task needs is"
        return f"{what} not here: {self.reason}" if self.reason else f"{what} no longer stored"


@message
class ForgetObjects:
    """Object cache to workers: these objects are deleted; processors must drop them too."""

    object_ids: Sequence[ObjectId]


@message
class CollectionDue:
    """To workers: an interval has ended. Objects that were not used in this interval can be dropped."""
