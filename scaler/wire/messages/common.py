"""Messages that several kinds of peers use: hellos and replies, objects, and the status of tasks.

`protocol/common.capnp` describes the same structs.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Annotated

from scaler.wire.messages.columns import (
    U8,
    U16,
    U32,
    U64,
    Bytes,
    FixedRows,
    FrameColumn,
    Id,
    ObjectIdColumn,
    Reason,
    RowCount,
    SizeRow,
    Text,
)
from scaler.wire.messages.directions import (
    AGENT_TO_PROCESSOR,
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    travels,
)

PROTOCOL_VERSION = 1
"""Incremented by every change that an older peer cannot read."""

PROFILE = struct.Struct("<QQQ")
"""The profile of a task: wall time and CPU time in microseconds, peak memory in bytes."""


class TaskStatus(IntEnum):
    """How a task ended."""

    SUCCESS = 0
    """the payload or the frames are its result"""
    FAILED = 1
    """it raised; the payload is a `TaskFailure`"""
    CANCELED = 2
    """it was cancelled"""
    PROCESSOR_DIED = 3
    """the process that ran it ended; the payload explains how"""
    WORKER_DIED = 4
    """the worker that ran it was lost too often; the payload names it"""
    NO_WORKER = 5
    """refused: no worker has capacity for it"""
    NOT_FOUND = 6
    """the receiver does not know the task"""
    MISSING_OBJECTS = 7
    """an object that it needs is no longer stored; the payload names it"""
    INTERNAL_ERROR = 8
    """the scheduler failed to handle it, or its worker gave it up; the payload explains why"""
    TIMED_OUT = 9
    """it took longer than its worker allows; the payload is a sentence about that, and then the traceback"""
    OUT_OF_MEMORY = 10
    """as `PROCESSOR_DIED`: the kernel killed the process for lack of memory"""


class OutputStream(IntEnum):
    """The source of a line of a task."""

    STANDARD_OUTPUT = 0
    STANDARD_ERROR = 1
    LOGGING = 2
    REPORT = 3
    """progress that the task reports, such as `40% of the paths`; only the latest one counts"""


OUTPUT_STREAMS = ("stdout", "stderr", "logging", "report")
"""The names of the streams for people."""


class RunState(IntEnum):
    """The state of a run at its worker."""

    NOT_KNOWN = 0
    QUEUED = 1
    RUNS = 2
    WAITS = 3
    """it waits for other tasks"""
    NO_ROOM = 4
    """it has not started, because its worker is paused for lack of memory for results"""


class InstructionKind(IntEnum):
    """What to do with an object."""

    CREATE = 0
    """store it until its client deletes it or leaves"""
    CREATE_FOR_TASK = 1
    """store it until the task that names it has ended"""
    DELETE = 2
    """delete it"""
    CREATE_FUNCTION = 3
    """as `CREATE`; its id is the hash of its content, so any client may send it again"""
    KEEP_RESULT = 4
    """only to agents: keep the large result of the task with this id, if still stored; other tasks need it"""


# One byte; the codec refuses a number that the enumeration does not have.
ProfileColumn = Annotated[bytes, "bytes", FixedRows(PROFILE.size, 1)]
StatusColumn = Annotated[int, "u8", TaskStatus]
StreamColumn = Annotated[int, "u8", OutputStream]
RunStateColumn = Annotated[int, "u8", RunState]
InstructionColumn = Annotated[int, "u8", InstructionKind]


RESUMING = 1
"""`resumes` of a peer that resumes its session."""
RETURNING = 2
"""`resumes` of a peer that had a session, here or with an earlier scheduler, and starts a new one."""


@travels(SCHEDULER_TO_CLIENT, SCHEDULER_TO_AGENT)
class HelloReply:
    """The scheduler's answer to a hello."""

    accepted: U8
    reason: Reason
    """the reason of a refusal, as a sentence that names both sides; empty when accepted"""
    scheduler_id: Id
    protocol_version: U16
    package_version: Text
    resumed: U8 = 0
    """1: the session resumes; 0: a new one starts, and both sides number their messages from 1 again"""
    heard: U64 = 0
    """if the session resumes: the highest number received from the peer"""
    timeout_milliseconds: U32 = 0
    """after this silence of the peer the scheduler takes it for dead; 0: unknown"""
    window_tasks: U32 = 0
    """the most open tasks of a client; 0: no limit"""
    window_bytes: U64 = 0
    """the most bytes of the arguments of a client's open tasks; 0: no limit"""
    account: U32 = 0
    """to a client outside of tasks: the number of its account"""
    value_bytes: U64 = 0
    """the most bytes of one value that the scheduler accepts; 0: unknown"""
    rows: RowCount = 0
    """to a client: the most rows in one task; 0: one"""


@travels(SCHEDULER_TO_CLIENT, SCHEDULER_TO_AGENT)
class HelloRequest:
    """Send a hello on a new connection: the scheduler does not know this connection."""

    reason: Reason


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT)
class Chunk:
    """A part of a message that is too large to travel in one piece. Used by `scaler.wire.session.pipe` only."""

    transfer: U32
    """the number of the large message among those that travel in parts"""
    sizes: SizeRow
    """in the first part: the bytes of each frame, the header first, as a row of UInt64; otherwise empty"""
    frames: FrameColumn
    """bytes of the frames of the large message, one after the other"""


NOT_FOUND, FOUND, LOST = 0, 1, 2
"""Whether an object is stored. `LOST` means that it was lost with its host: a peer may submit the call that made it
again. For the id of a graph, a value that its open nodes need was lost: the whole graph must be resubmitted.
"""


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT)
class ObjectRequest:
    """Send this object."""

    object_id: ObjectIdColumn
    by_value: U8 = 0
    """1: send its bytes, because the sender cannot open its location"""


@travels(SCHEDULER_TO_CLIENT, SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER, AGENT_TO_PROCESSOR)
class ObjectResponse:
    """An object, or the report that it is not stored. A leaving agent also sends objects without a request."""

    object_id: ObjectIdColumn
    found: U8
    """`NOT_FOUND`, `FOUND` or `LOST`; for a large result, `LOST` is also sent without a request"""
    frames: FrameColumn
    location: Bytes = b""
    """the location of its memory, instead of the frames: a `SharedBlock` of its client, or of its agent"""
    reason: Text = ""
    """why it is missing or lost; empty if it was deleted, or never stored"""


@travels(SCHEDULER_TO_AGENT)
class PartRequest:
    """Send a part of an object. Answered by `ObjectPart`."""

    object_id: ObjectIdColumn
    location: Bytes
    """the location of the requested result, which a newer result does not match; empty: a copy"""
    offset: U64
    """where the part begins in the joined frames"""
    most_bytes: U32


@travels(AGENT_TO_SCHEDULER)
class ObjectPart:
    """A part of an object."""

    object_id: ObjectIdColumn
    location: Bytes
    """as in the request"""
    offset: U64
    sizes: SizeRow
    """in the first part: the bytes of each frame of the object, as a row of UInt64"""
    frames: FrameColumn
    """the bytes of the part"""
    reason: Text = ""
    """why the sender does not have the object; empty if it does"""


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class ObjectInstruction:
    """Create or delete a stored object."""

    kind: InstructionColumn
    object_id: ObjectIdColumn
    name: Text
    frames: FrameColumn
    location: Bytes = b""
    """the location of its memory, instead of the frames, which the client sends on request; in a delete: only that
    result, and not a newer one
    """


@travels(AGENT_TO_SCHEDULER)
class ObjectKept:
    """An agent that reconnected still has a copy of this object."""

    object_id: ObjectIdColumn
