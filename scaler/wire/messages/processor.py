"""Between an agent and a processor, beside tasks, results and objects. As `protocol/processor.capnp`."""

from __future__ import annotations

from scaler.message import message
from scaler.wire.messages.columns import U8, U32, U64, Line, Reason
from scaler.wire.messages.common import StreamColumn


@message
class CollectGarbage:
    """Between two tasks: collect garbage and return unused memory to the system."""

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
    """1: it continues only when it is told to; 0: another thread of it waits, and it may continue at any time"""
    wait: U32 = 0
    """the number of the wait, as in `ClientResting`; 0: the process must not be stopped"""
    timeout_ms: U32 = 0
    """the wait ends after this time in any case; 0: no limit"""


@message
class ResumeRequest:
    """The wait is over: the task asks to continue, and waits for `ResumeTask`."""

    number: U32


@message
class TaskUnblocked:
    """No thread of the task waits any more; it continues without asking."""

    number: U32


@message
class ResumeTask:
    """The task may continue."""

    number: U32


@message
class EndProcessor:
    """The processor is not needed and ends, unless clients in it have open tasks; then it reports ready again."""

    reason: Reason


@message
class EngineDown:
    """The host of an engine has lost the engine, or cannot reach it."""

    is_final: U8
    """1: this host will not try again and ends; if none was ever ready, so does the node"""
    reason: Reason


@message
class EngineCapacity:
    """The engine of a host can run so many tasks at once now."""

    places: U32


@message
class TaskOutput:
    """A line that a task has written. Not for tasks that write nothing."""

    number: U32
    """of the task, counted from 1 in the order in which they were handed to this processor"""
    stream: StreamColumn
    time_us: U64
    """when: microseconds since 1970"""
    dropped: U32
    """so many lines before this one were left out"""
    text: Line = ""
    """empty if something was dropped and nothing follows"""
