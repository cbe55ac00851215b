"""Messages between the actors of the executor of local processes.

Messages to and from the agent are in `scaler.executors.messages`, messages between processes in `scaler.wire.messages`.

    Slot <--> ProcessorProxy <--> ForkServerProxy
     |
     +--> Pool
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from scaler.ids import ObjectId
from scaler.message import message
from scaler.wire.messages.common import TaskStatus

if TYPE_CHECKING:
    from scaler.executors.messages import CachedObject
    from scaler.kit import ActorRef
    from scaler.processor.progress_page import ProgressPage
    from scaler.wire.messages.columns import Batch
    from scaler.wire.messages.processor import TaskOutput
    from scaler.wire.messages.worker import RunResult, RunTask

# Between slot, pool, processor proxy and proxy of the fork server. A new processor has the address of its predecessor,
# so all these messages carry the number of the processor, which is never used again.


@message
class AddProcessor:
    """Slot to pool: start one more processor."""

    slot: int


@message
class InstallationWorks:
    """Processor proxy to pool: the installation works, so later failures have other causes."""


@message
class InitializerFailed:
    """Processor proxy to pool: the initializer has failed in a process."""

    worker: str
    why: str
    proxy: ActorRef
    number: int


@message
class PrepareAnother:
    """Pool to processor proxy: fail, so that another process is started in place of yours."""

    number: int


@message
class ProcessorComing:
    """A processor is being started."""

    number: int
    is_extra: bool
    pool: int = 0
    """the number of its pool: a new pool does not know the requests to the previous one"""


@message
class ProcessorNotComing:
    """A processor has ended before it was ready. After a failure, the pool starts it again after a while."""

    number: int
    is_extra: bool
    is_tried_again: bool


@message
class ProcessorUp:
    """A new processor is ready for work."""

    number: int
    proxy: ActorRef
    progress: ProgressPage
    is_extra: bool
    """whether a slot has requested it: when it ends, it is not replaced"""
    pid: int = 0


@message
class ProcessorDown:
    """A processor has died. Everything that it had sent was passed on before."""

    number: int
    executing: int
    """the number of the task that it was executing, counted from 1 for each processor; 0: no task"""
    reason: str
    """how it ended: a part of a sentence"""
    status: TaskStatus = TaskStatus.PROCESSOR_DIED
    """the outcome of that task"""
    is_to_blame: bool = True
    """whether that task may have ended the processor; if not, it runs again unless its options forbid that"""


@message
class ProcessorKept:
    """A dismissed processor stays, because a client in it has open tasks."""

    number: int


@message
class TasksFinished:
    number: int
    results: Batch[RunResult]


@message
class ProcessorBlocked:
    """A task waits for other tasks."""

    number: int
    task: int
    """the number of the task, counted from 1 for each processor"""
    is_stuck: bool
    """whether it resumes only with permission"""
    wait: int = 0
    """the number of the wait, if the process may be stopped meanwhile; 0: it may not"""
    timeout_seconds: float = inf
    """the longest duration of the wait"""


@message
class TasksPrinted:
    """Lines that tasks have printed."""

    number: int
    lines: Batch[TaskOutput]


@message
class ProcessorResumable:
    """The tasks that a blocked task waited for have ended, so it can resume."""

    number: int
    task: int


@message
class ProcessorUnblocked:
    """The blocked task has resumed without asking: none of its threads waits any longer."""

    number: int
    task: int


@message
class ResumeProcessor:
    """Let a blocked task resume."""

    number: int
    task: int


@message
class DismissProcessor:
    """End a processor that is not needed."""

    number: int


@message
class SendTasks:
    """Send tasks to a processor. The slot also sends this to itself after it has sent a single task."""

    number: int
    tasks: Sequence[RunTask]


@message
class SendObject:
    number: int
    stored: CachedObject


@message
class DropObjects:
    number: int
    object_ids: Sequence[ObjectId]


@message
class CleanProcessor:
    """Collect garbage in the processor, and return unused memory to the system."""

    number: int


@message
class InterruptProcessor:
    """Let the processor look at its progress page for a task to interrupt."""

    number: int


@message
class SuspendProcessor:
    """Stop the whole process, or continue it."""

    number: int
    is_suspended: bool


@message
class KillProcessor:
    number: int
    reason: str


@message
class StartProcess:
    """Start a processor process. The receiver passes its channel and progress page on, and closes them."""

    number: int
    worker: str
    proxy: ActorRef
    channel: int
    progress: int
    is_extra: bool


@message
class SignalProcess:
    number: int
    kind: int
    """the request to the fork server: interrupt, stop, continue or kill"""


@message
class ProcessStarted:
    number: int
    pid: int


@message
class ProcessNotStarted:
    """The system has refused to start a process."""

    number: int
    errno: int


@message
class ProcessEnded:
    number: int
    exit_code: int
    """negative: the number of the signal that ended it"""
    peak_bytes: int
    """the most memory that it ever had"""
    is_memory_short: bool
    """whether the kernel has killed a process for lack of memory since the previous processor ended"""
