"""What the actors of the executor of local processes tell each other. What they and the agent say, is in
`scaler.agent.messages`; what crosses a process boundary, in `scaler.wire.messages`.

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

# Between slot, pool, processor proxy and proxy of the fork server. A new processor has the address of the one before,
# so all these carry the number of the one that is meant, which is never used again.


@message
class AddProcessor:
    """slot -> pool: I need one more."""

    slot: int


@message
class InstallationWorks:
    """processor proxy -> pool: what fails from now on is no fault of the installation."""


@message
class InitializerFailed:
    """processor proxy -> pool: a process could not be prepared."""

    worker: str
    why: str
    proxy: ActorRef
    number: int


@message
class PrepareAnother:
    """pool -> processor proxy: fail, so that another process is started in the place of yours."""

    number: int


@message
class ProcessorComing:
    """It is being started."""

    number: int
    is_extra: bool
    pool: int = 0
    """of which pool: a new one knows nothing of what was asked of the one before"""


@message
class ProcessorNotComing:
    """It has ended before it was up. If that was a failure, the pool starts it again after a while."""

    number: int
    is_extra: bool
    is_tried_again: bool


@message
class ProcessorUp:
    """A new processor waits for work."""

    number: int
    proxy: ActorRef
    progress: ProgressPage
    is_extra: bool
    """a slot has asked for it: when it ends, no other one is started"""
    pid: int = 0


@message
class ProcessorDown:
    """The processor is dead; everything that it had sent before was handed on first."""

    number: int
    executing: int
    """the number of the task that was being executed, counted from 1 for each processor; 0: none"""
    reason: str
    """how it ended: a part of a sentence"""
    status: TaskStatus = TaskStatus.PROCESSOR_DIED
    """what becomes of that task"""
    is_to_blame: bool = True
    """whether it is that task's doing; else it has begun, and runs again unless its options forbid that"""


@message
class ProcessorKept:
    """It was to end and does not, because it is needed."""

    number: int


@message
class TasksFinished:
    number: int
    results: Batch[RunResult]


@message
class ProcessorBlocked:
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
class TasksPrinted:
    """Tasks have written lines."""

    number: int
    lines: Batch[TaskOutput]


@message
class ProcessorResumable:
    """What a task waited for is there."""

    number: int
    task: int


@message
class ProcessorUnblocked:
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
class SendTasks:
    """The slot also tells itself so, when a task is handed that came alone."""

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
    """Have it collect its garbage, and give back memory that it does not use."""

    number: int


@message
class InterruptProcessor:
    """Have the processor look at its progress page for a task to interrupt."""

    number: int


@message
class SuspendProcessor:
    """Stop the whole process, or have it go on."""

    number: int
    is_suspended: bool


@message
class KillProcessor:
    number: int
    reason: str


@message
class StartProcess:
    """Start a processor process; its channel and progress page are handed over and closed here."""

    number: int
    worker: str
    """its name"""
    proxy: ActorRef
    channel: int
    progress: int
    is_extra: bool


@message
class SignalProcess:
    number: int
    kind: int
    """what the fork server is asked for: to interrupt, stop, continue or kill it"""


@message
class ProcessStarted:
    number: int
    pid: int


@message
class ProcessNotStarted:
    """The system gave no process."""

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
    """the kernel has killed something here for want of memory since the process before this one ended"""
