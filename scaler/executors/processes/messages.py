"""Messages between the actors of the executor of local processes.

    Slot <--> ProcessorProxy <--> ForkServerProxy
     |
     +--> Pool

Messages to and from the agent are in `scaler.executors.messages`.
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
    """Slot to pool: start an extra processor for this slot."""

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
    """Pool to processor proxy: fail, so that your process is replaced by another one."""

    number: int


@message
class ProcessorComing:
    """Processor proxy to slot: a processor is being started."""

    number: int
    is_extra: bool
    pool: int = 0
    """the number of the pool that starts the processor; a restarted pool has a new number, and has lost all requests"""


@message
class ProcessorNotComing:
    """Processor proxy to slot: a processor has ended before it was ready."""

    number: int
    is_extra: bool
    is_tried_again: bool


@message
class ProcessorUp:
    """Processor proxy to slot: a new processor is ready for work."""

    number: int
    proxy: ActorRef
    progress: ProgressPage
    is_extra: bool
    """whether the slot has requested the processor (`AddProcessor`): then it is not replaced at its end"""
    pid: int = 0


@message
class ProcessorDown:
    """Processor proxy to slot: a processor has died. The proxy has passed on all messages of the processor before."""

    number: int
    executing: int
    """the number of the task that the processor was executing, counted from 1 for each processor; 0: no task"""
    reason: str
    """how the processor ended, as a part of a sentence"""
    status: TaskStatus = TaskStatus.PROCESSOR_DIED
    """the outcome of the task that was executing"""
    is_to_blame: bool = True
    """whether the executing task may have ended the processor; else the task runs again if its options permit"""


@message
class ProcessorKept:
    """Processor proxy to slot: a dismissed processor stays, because a client in its process has open tasks."""

    number: int


@message
class TasksFinished:
    number: int
    results: Batch[RunResult]


@message
class ProcessorBlocked:
    """Processor proxy to slot: a task waits for other tasks."""

    number: int
    task: int
    """the number of the task, counted from 1 for each processor"""
    is_stuck: bool
    """whether the task resumes only with permission"""
    wait: int = 0
    """the number of the wait, if the process may be stopped during the wait; 0: the process may not be stopped"""
    timeout_seconds: float = inf
    """the longest duration of the wait"""


@message
class TasksPrinted:
    """Processor proxy to slot: lines that tasks have printed."""

    number: int
    lines: Batch[TaskOutput]


@message
class ProcessorResumable:
    """Processor proxy to slot: the tasks that a blocked task waited for have ended, so the blocked task can resume."""

    number: int
    task: int


@message
class ProcessorUnblocked:
    """Processor proxy to slot: the blocked task has resumed without permission, because none of its threads waits."""

    number: int
    task: int


@message
class ResumeProcessor:
    """Slot to processor proxy: let the blocked task with this number resume."""

    number: int
    task: int


@message
class DismissProcessor:
    """Slot to processor proxy: end a processor that is not needed, unless a client in it has open tasks."""

    number: int


@message
class SendTasks:
    """Send tasks to a processor. The slot also mails a message with a single task to itself, to estimate the task."""

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
    """Interrupt the processor, so that it reads in its progress page which task must be interrupted."""

    number: int


@message
class SuspendProcessor:
    """Stop the whole process of a processor, or continue this process."""

    number: int
    is_suspended: bool


@message
class KillProcessor:
    number: int
    reason: str


@message
class StartProcess:
    """Start the process of a processor. The receiver passes on the two descriptors, and then closes its own."""

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
    """what the fork server does to the process: interrupt, stop, continue or kill"""


@message
class ProcessStarted:
    number: int
    pid: int


@message
class ProcessNotStarted:
    """Fork server proxy to processor proxy: the system has refused to start a process."""

    number: int
    errno: int


@message
class ProcessEnded:
    number: int
    exit_code: int
    """the exit code of the process; negative: minus the number of the signal that ended the process"""
    peak_bytes: int
    """the largest amount of memory that the process ever had"""
    is_memory_short: bool
    """whether the kernel has killed a process for lack of memory since the previous processor ended"""
