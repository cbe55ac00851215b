"""Messages between an agent and a processor, besides tasks, results and objects, as in `protocol/processor.capnp`."""

from __future__ import annotations

from scaler.wire.messages.columns import U8, U32, U64, Line, Reason
from scaler.wire.messages.common import StreamColumn
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT, travels


@travels(AGENT_TO_PROCESSOR)
class CollectGarbage:
    """The request to collect garbage between two tasks, and to return unused memory to the system."""

    trim_above_bytes: U64
    """a processor with more memory than this returns unused memory to the system"""


@travels(PROCESSOR_TO_AGENT)
class ProcessorReady:
    """The report that the processor has started and waits for work."""

    pid: U32


@travels(PROCESSOR_TO_AGENT)
class TaskBlocked:
    """The report that a task waits for other tasks, so the agent may run other tasks in its place."""

    number: U32
    """the number of the task, from 1, in the order in which this processor received its tasks"""
    is_stuck: U8
    """whether the task waits for a `ResumeTask`; if not, one of its threads waits, and the task may resume anytime"""
    wait: U32 = 0
    """the number of the wait, as in `ClientResting`; 0: the process must not be stopped"""
    timeout_ms: U32 = 0
    """the longest time that the wait may take; 0: no limit"""


@travels(PROCESSOR_TO_AGENT)
class ResumeRequest:
    """A task's request to resume, because its wait has ended. The task waits for `ResumeTask`."""

    number: U32


@travels(PROCESSOR_TO_AGENT)
class TaskUnblocked:
    """The report that no thread of the task waits any longer. The task resumes without a `ResumeTask`."""

    number: U32


@travels(AGENT_TO_PROCESSOR)
class ResumeTask:
    """The permission for a task to resume."""

    number: U32


@travels(AGENT_TO_PROCESSOR)
class EndProcessor:
    """The request to a processor to end. A processor whose clients have open tasks reports ready again instead."""

    reason: Reason


@travels(PROCESSOR_TO_AGENT)
class EngineDown:
    """The report of an engine's host process that it has lost the engine, or cannot reach the engine."""

    is_final: U8
    """whether this host process gives up and ends. If no host process of the node was ever ready, the node also ends"""
    reason: Reason


@travels(PROCESSOR_TO_AGENT)
class EngineCapacity:
    """How many tasks the engine of a host process can run at once now."""

    places: U32


@travels(PROCESSOR_TO_AGENT)
class TaskOutput:
    """A line that a task has written."""

    number: U32
    """the number of the task, as in `TaskBlocked`"""
    stream: StreamColumn
    time_us: U64
    """the time of the line in microseconds since 1970"""
    dropped: U32
    """how many lines of the task are missing between the previous line and this line"""
    text: Line = ""
    """the text of the line; empty if this item only reports dropped lines"""
