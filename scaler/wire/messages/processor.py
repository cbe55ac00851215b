"""Between an agent and a processor, beside tasks, results and objects. As `protocol/processor.capnp`."""

from __future__ import annotations

from scaler.message import message
from scaler.wire.messages.columns import U8, U32, U64, Text


@message
class CollectGarbage:
    """Between two tasks: collect what refers to itself only, and give back to the system what is not used."""

    trim_above_bytes: U64
    """a processor with no more memory than this keeps it"""


@message
class ProcessorReady:
    """The processor has started and waits for work."""

    pid: U32


@message
class TaskBlocked:
    """The task waits for others: the agent may run other tasks in its place."""

    number: U32
    """of the task, counted from 1 in the order in which they were handed to this processor"""
    is_stuck: U8
    """1: it does not go on before it is told to; 0: some other thread of it waits, and it may go on as it likes"""
    wait: U32 = 0
    """the number of the wait, as in `ClientResting`; 0: the process must not be stopped"""
    timeout_ms: U32 = 0
    """after so long the wait ends in any case; 0: it does not"""


@message
class ResumeRequest:
    """What the task waited for is there: it asks to go on, and waits for `ResumeTask`."""

    number: U32


@message
class TaskUnblocked:
    """No thread of the task waits any more; it did not ask."""

    number: U32


@message
class ResumeTask:
    """The task may go on."""

    number: U32


@message
class EndProcessor:
    """The processor is not needed any more and ends; unless clients in it have open tasks, then it is ready again."""

    reason: Text
