"""Messages of several parties: hellos and replies, objects, and the status of tasks. As `protocol/common.capnp`."""

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
"""Raised by every change that an older peer cannot read."""

PROFILE = struct.Struct("<QQQ")
"""The profile of a task: wall time and CPU time in microseconds, peak memory in bytes."""


class TaskStatus(IntEnum):
    """How a task ended."""

    SUCCESS = 0
    """the payload, or the frames, are its result"""
    FAILED = 1
    """it raised; the payload is a `TaskFailure`"""
    CANCELED = 2
    """it was cancelled"""
    PROCESSOR_DIED = 3
    """the process that ran it ended; the payload says how"""
    WORKER_DIED = 4
    """the worker that ran it was lost too often; the payload says which"""
    NO_WORKER = 5
    """refused: no worker has room for it"""
    NOT_FOUND = 6
    """the receiver does not know the task"""
    MISSING_OBJECTS = 7
    """an object that it needs is not stored any more; the payload says which"""
    INTERNAL_ERROR = 8
    """the scheduler failed to handle it, or its worker gave it up; the payload says why"""
    TIMED_OUT = 9
    """it took longer than its worker allows; the first line of the payload says so, the others are its traceback"""
    OUT_OF_MEMORY = 10
    """as `PROCESSOR_DIED`: the kernel has killed the process for want of memory"""


class OutputStream(IntEnum):
    """Where a task has written a line."""

    STANDARD_OUTPUT = 0
    STANDARD_ERROR = 1
    LOGGING = 2
    REPORT = 3
    """how far it is, as it says itself: `40% of the paths`; the latest one counts"""


OUTPUT_STREAMS = ("stdout", "stderr", "logging", "report")
"""What people call them."""


class RunState(IntEnum):
    """Where a run is at its worker."""

    NOT_KNOWN = 0
    QUEUED = 1
    RUNS = 2
    WAITS = 3
    """for other tasks"""
    NO_ROOM = 4
    """it has not begun: its worker begins nothing, because there is no room for what that would return"""


class InstructionKind(IntEnum):
    """What to do with an object."""

    CREATE = 0
    """store it until its client deletes it or leaves"""
    CREATE_FOR_TASK = 1
    """store it until the task that names it has ended"""
    DELETE = 2
    """forget it"""
    CREATE_FUNCTION = 3
    """as `CREATE`; its id is the hash of its content, so any client may send it again"""
    KEEP_RESULT = 4
    """only to agents: keep the large result of the task with this id, if you still have it; other tasks need it"""


# One byte; the codec refuses a number that the enumeration does not have.
ProfileColumn = Annotated[bytes, "bytes", FixedRows(PROFILE.size, 1)]
StatusColumn = Annotated[int, "u8", TaskStatus]
StreamColumn = Annotated[int, "u8", OutputStream]
RunStateColumn = Annotated[int, "u8", RunState]
InstructionColumn = Annotated[int, "u8", InstructionKind]


GOES_ON = 1
"""`resumes` of a peer that goes on with its session."""
IS_BACK = 2
"""`resumes` of a peer that had a session, here or with an earlier scheduler, and begins anew."""


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
    """1: the session goes on where it was; 0: both sides count their messages from 1 again"""
    heard: U64 = 0
    """if it goes on: the highest number of the peer's messages that has come"""
    timeout_milliseconds: U32 = 0
    """a peer that is silent for so long is dead for this scheduler; 0: unknown"""
    window_tasks: U32 = 0
    """how many open tasks the scheduler takes from a client; 0: no limit"""
    window_bytes: U64 = 0
    """how many bytes of arguments of these; 0: no limit"""
    account: U32 = 0
    """to a client outside of tasks: the number of its account"""
    value_bytes: U64 = 0
    """the most bytes of one value that the scheduler takes; 0: not said"""
    rows: RowCount = 0
    """to a client: the most rows of a map that it takes as one task; 0: one"""


@travels(SCHEDULER_TO_CLIENT, SCHEDULER_TO_AGENT)
class HelloRequest:
    """The scheduler does not know this connection: send a hello on a new one."""

    reason: Reason


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT)
class Chunk:
    """A part of a message that is too large to travel in one piece. For `scaler.wire.session.pipe` only."""

    transfer: U32
    """the number of that message, among those that travel in parts"""
    sizes: SizeRow
    """in the first part: the bytes of each frame, the header first, as a row of UInt64; else empty"""
    frames: FrameColumn
    """bytes of these frames, one after the other"""


NOT_FOUND, FOUND, LOST = 0, 1, 2
"""Whether an object is there. Lost: it went with its host, and whoever has the call that made it may say that again; an
id of a graph: some value that its open nodes need was lost, and all of it is to be said again."""


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT)
class ObjectRequest:
    """Send me this object."""

    object_id: ObjectIdColumn
    by_value: U8 = 0
    """1: its bytes, because its location cannot be opened here"""


@travels(SCHEDULER_TO_CLIENT, SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER, AGENT_TO_PROCESSOR)
class ObjectResponse:
    """The object, or the news that it is not stored. An agent that leaves also sends what nobody has asked for."""

    object_id: ObjectIdColumn
    found: U8
    """`NOT_FOUND`, `FOUND` or `LOST`; said of a large result, `LOST` needs no question"""
    frames: FrameColumn
    location: Bytes = b""
    """the location of its memory, instead of the frames: a `SharedBlock` of its client, or of its agent"""
    reason: Text = ""
    """not stored, or lost: why; empty: it was deleted, or never stored"""


@travels(SCHEDULER_TO_AGENT)
class PartRequest:
    """Send me a part of an object of yours. Answered by `ObjectPart`."""

    object_id: ObjectIdColumn
    location: Bytes
    """only of the result that is there, and not of a newer one; empty: of a copy"""
    offset: U64
    """where it begins, in all frames together, one after the other"""
    most_bytes: U32


@travels(AGENT_TO_SCHEDULER)
class ObjectPart:
    """A part of an object."""

    object_id: ObjectIdColumn
    location: Bytes
    """as it was asked for"""
    offset: U64
    sizes: SizeRow
    """of the first part: the bytes of each frame of the object, as a row of UInt64"""
    frames: FrameColumn
    """its bytes"""
    reason: Text = ""
    """why it is not here; empty: it is"""


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class ObjectInstruction:
    """Create or delete a stored object."""

    kind: InstructionColumn
    object_id: ObjectIdColumn
    name: Text
    frames: FrameColumn
    location: Bytes = b""
    """the location of its memory, instead of the frames, which the client sends on request; of a delete: only the
    result that is there, and not a newer one
    """


@travels(AGENT_TO_SCHEDULER)
class ObjectKept:
    """An agent that is back on a new connection still has a copy of this object."""

    object_id: ObjectIdColumn
