"""Between an agent and a processor, beside tasks, results and objects. As `protocol/processor.capnp`."""

from __future__ import annotations

from scaler.wire.messages.columns import U8, U32, U64, Line, Reason
from scaler.wire.messages.common import StreamColumn
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT, travels


@travels(AGENT_TO_PROCESSOR)
class CollectGarbage:
    """Between two tasks: collect garbage and return unused memory to the system."""

    trim_above_bytes: U64
    """a processor with no more memory than this keeps it"""


@travels(PROCESSOR_TO_AGENT)
class ProcessorReady:
    """The processor has started and waits for work."""

    pid: U32


@travels(PROCESSOR_TO_AGENT)
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


@travels(PROCESSOR_TO_AGENT)
class ResumeRequest:
    """The wait is over: the task asks to continue, and waits for `ResumeTask`."""

    number: U32


@travels(PROCESSOR_TO_AGENT)
class TaskUnblocked:
    """No thread of the task waits any more; it continues without asking."""

    number: U32


@travels(AGENT_TO_PROCESSOR)
class ResumeTask:
    """The task may continue."""

    number: U32


@travels(AGENT_TO_PROCESSOR)
class EndProcessor:
    """The processor is not needed and ends, unless clients in it have open tasks; then it reports ready again."""

    reason: Reason


@travels(PROCESSOR_TO_AGENT)
class EngineDown:
    """The host of an engine has lost the engine, or cannot reach it."""

    is_final: U8
    """1: this host will not try again and ends; if none was ever ready, so does the node"""
    reason: Reason


@travels(PROCESSOR_TO_AGENT)
class EngineCapacity:
    """The engine of a host can run so many tasks at once now."""

    places: U32


@travels(PROCESSOR_TO_AGENT)
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
