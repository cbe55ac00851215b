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
"""The version of the protocol. Each change that an older peer cannot read increments it."""

PROFILE = struct.Struct("<QQQ")
"""The profile of a task: wall time and CPU time in microseconds, peak memory in bytes."""


class TaskStatus(IntEnum):
    """How a task ended."""

    SUCCESS = 0
    """the task succeeded; the payload or the frames are the result"""
    FAILED = 1
    """the task raised an exception; the payload is a `TaskFailure`"""
    CANCELED = 2
    """the task was cancelled"""
    PROCESSOR_DIED = 3
    """the process that ran the task ended; the payload explains how"""
    WORKER_DIED = 4
    """the task lost its worker too often; the payload names the worker"""
    NO_WORKER = 5
    """the task was refused, because no worker has capacity for the task"""
    NOT_FOUND = 6
    """the receiver does not know the task"""
    MISSING_OBJECTS = 7
    """an object that the task needs is no longer stored; the payload names the object"""
    INTERNAL_ERROR = 8
    """the scheduler failed to handle the task, or the worker gave the task up; the payload explains why"""
    TIMED_OUT = 9
    """the task took longer than allowed; the payload is a sentence about the limit, and then the traceback"""
    OUT_OF_MEMORY = 10
    """the kernel killed the process of the task, for lack of memory; the payload explains how the process ended"""


class OutputStream(IntEnum):
    """The stream to which a task wrote a line."""

    STANDARD_OUTPUT = 0
    STANDARD_ERROR = 1
    LOGGING = 2
    REPORT = 3
    """progress that the task reports, such as `40% of the paths`; only the latest report counts"""


OUTPUT_STREAMS = ("stdout", "stderr", "logging", "report")
"""The names of the output streams, for people."""


class RunState(IntEnum):
    """The state of a run at its worker."""

    NOT_KNOWN = 0
    QUEUED = 1
    RUNS = 2
    WAITS = 3
    """the run waits for other tasks"""
    NO_ROOM = 4
    """the run has not started, because its worker is paused for lack of memory for results"""


class InstructionKind(IntEnum):
    """The requests that an `ObjectInstruction` can make."""

    CREATE = 0
    """store the object until its client deletes the object or leaves"""
    CREATE_FOR_TASK = 1
    """store the object until the task that names the object has ended"""
    DELETE = 2
    """delete the object"""
    CREATE_FUNCTION = 3
    """store a function, as for `CREATE`; the id is the hash of its content, so all clients may send the function"""
    KEEP_RESULT = 4
    """keep the large result of the task with this id, if still stored, for other tasks; sent only to agents"""


# One byte; the codec refuses a number that the enumeration does not have.
ProfileColumn = Annotated[bytes, "bytes", FixedRows(PROFILE.size, 1)]
StatusColumn = Annotated[int, "u8", TaskStatus]
StreamColumn = Annotated[int, "u8", OutputStream]
RunStateColumn = Annotated[int, "u8", RunState]
InstructionColumn = Annotated[int, "u8", InstructionKind]


RESUMING = 1
"""The value of `resumes` in the hello of a peer that resumes its session."""
RETURNING = 2
"""The value of `resumes` in the hello of a peer that had a session, with any scheduler, and starts a new session."""


@travels(SCHEDULER_TO_CLIENT, SCHEDULER_TO_AGENT)
class HelloReply:
    """The scheduler's answer to a hello."""

    accepted: U8
    reason: Reason
    """why the scheduler refuses the hello, as a sentence that names both sides; empty if the hello is accepted"""
    scheduler_id: Id
    protocol_version: U16
    package_version: Text
    resumed: U8 = 0
    """whether the session resumes; otherwise a new session starts, and both sides number their messages from 1 again"""
    heard: U64 = 0
    """the highest number received from the peer, if the session resumes"""
    timeout_milliseconds: U32 = 0
    """the silence after which the scheduler considers the peer dead; 0: unknown"""
    window_tasks: U32 = 0
    """how many open tasks a client may have; 0: no limit"""
    window_bytes: U64 = 0
    """how many bytes the arguments of a client's open tasks may have in all; 0: no limit"""
    account: U32 = 0
    """the account number of the client, if the client is outside of tasks"""
    value_bytes: U64 = 0
    """the size up to which the scheduler accepts a value; 0: unknown"""
    rows: RowCount = 0
    """how many rows a task of a client may have; 0: one row"""


@travels(SCHEDULER_TO_CLIENT, SCHEDULER_TO_AGENT)
class HelloRequest:
    """The request to send a hello on a new connection, because the scheduler does not know this connection."""

    reason: Reason


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT)
class Chunk:
    """A part of a message that is too large for one piece. Only `scaler.wire.session.pipe` handles chunks."""

    transfer: U32
    """the number of the large message, counted among all messages that travel in chunks"""
    sizes: SizeRow
    """in the first chunk: the size of each frame of the large message, header first, as UInt64; otherwise empty"""
    frames: FrameColumn
    """bytes of the frames of the large message, one after the other"""


NOT_FOUND, FOUND, LOST = 0, 1, 2
"""The values of `found` in an `ObjectResponse`. `LOST`: the object was lost with its host; a peer may resubmit the call
that made the object.
"""


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT)
class ObjectRequest:
    """The request to send the object with this id."""

    object_id: ObjectIdColumn
    by_value: U8 = 0
    """whether to send the bytes of the object, because the requesting peer cannot open the location"""


@travels(SCHEDULER_TO_CLIENT, SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER, AGENT_TO_PROCESSOR)
class ObjectResponse:
    """An object, or the report that an object is not stored. A leaving agent also sends objects without a request."""

    object_id: ObjectIdColumn
    found: U8
    """`NOT_FOUND`, `FOUND` or `LOST`; the scheduler also reports a lost large result (`LOST`) without a request"""
    frames: FrameColumn
    location: Bytes = b""
    """instead of frames: the location in shared memory, a `SharedBlock` of the object's client or agent"""
    reason: Text = ""
    """why the object is missing or lost; empty if the object was deleted, or never stored"""


@travels(SCHEDULER_TO_AGENT)
class PartRequest:
    """The request to send a part of an object. The answer is an `ObjectPart`."""

    object_id: ObjectIdColumn
    location: Bytes
    """the location of the requested result, which differs for each run of the task; empty: a copy is requested"""
    offset: U64
    """the offset of the part in the joined frames of the object"""
    most_bytes: U32


@travels(AGENT_TO_SCHEDULER)
class ObjectPart:
    """A part of an object."""

    object_id: ObjectIdColumn
    location: Bytes
    """the location in the `PartRequest`"""
    offset: U64
    sizes: SizeRow
    """in the first part: the size of each frame of the object, as consecutive UInt64"""
    frames: FrameColumn
    """the bytes of the part"""
    reason: Text = ""
    """why the sender does not have the object; empty if the sender has the object"""


@travels(CLIENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class ObjectInstruction:
    """The request to create or delete a stored object."""

    kind: InstructionColumn
    object_id: ObjectIdColumn
    name: Text
    frames: FrameColumn
    location: Bytes = b""
    """when creating: the location of the object in shared memory, instead of the frames, which the client sends on
    request. When deleting: the location of the result to delete; a newer result stays
    """


@travels(AGENT_TO_SCHEDULER)
class ObjectKept:
    """The report of a reconnected agent that it still has a copy of this object."""

    object_id: ObjectIdColumn
