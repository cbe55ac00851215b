"""Messages between an agent and the scheduler, as in `protocol/worker.capnp`."""

from __future__ import annotations

import struct
from enum import IntFlag
from typing import Annotated

from scaler.ids import ID_BYTES, NO_ID
from scaler.wire.messages.columns import (
    I32,
    U8,
    U16,
    U32,
    U64,
    Bytes,
    FixedRows,
    FrameColumn,
    Id,
    Line,
    Names,
    ObjectIdColumn,
    Options,
    Reason,
    RowCount,
    TaskIdColumn,
    Text,
)
from scaler.wire.messages.common import ProfileColumn, RunStateColumn, StatusColumn, StreamColumn
from scaler.wire.messages.directions import (
    AGENT_TO_PROCESSOR,
    AGENT_TO_SCHEDULER,
    PROCESSOR_TO_AGENT,
    SCHEDULER_TO_AGENT,
    travels,
)
from scaler.wire.messages.monitor import BIN_ROW, FUNCTION_ROW, PROCESSOR_ROW, RUN_ROW, WORKER_ROW

HELD_RUN = struct.Struct("<16sIHI")
"""The encoding of a run that an agent still has: task id, attempt, position of the worker, and number of rows."""

RANDOM_HASHES = 1
"""The value of `text_hash` for workers whose user has requested random hash seeds."""

HELD_MOST = 250_000
"""The most runs that a hello can name. If the scheduler does not know a further run, it assigns the task again."""

HeldColumn = Annotated[bytes, "bytes", FixedRows(HELD_RUN.size, HELD_MOST)]
HELD_OWNER = struct.Struct("<Q")
"""The encoding of the tag of the owner of a run."""
HeldOwnersColumn = Annotated[bytes, "bytes", FixedRows(HELD_OWNER.size, HELD_MOST)]


@travels(AGENT_TO_SCHEDULER)
class WorkerHello:
    """The first message of a cluster's agent on every connection."""

    protocol_version: U16
    package_version: Text
    python_version: Text
    cloudpickle_version: Text
    agent_id: Id
    """a random id that only the agent and the scheduler know, to resume the session on a new connection"""
    worker_names: Names
    """the names of the agent's workers, separated by commas; messages name a worker by its position in this list"""
    held: HeldColumn
    """the runs that the agent still has, including unacknowledged results, as joined `HELD_RUN` records"""
    agent_token: Id = NO_ID
    """a random token, known to the agent, its processors and the scheduler; proves where clients inside tasks run"""
    resumes: U8 = 0
    """whether the agent had a session: `RESUMING` or `RETURNING`; 0 for a new agent"""
    heard: U64 = 0
    """the highest number received from the scheduler, if the agent resumes its session"""
    agents: U32 = 0
    """the number of agents of the last scheduler, including this agent; 0: no earlier scheduler, or unknown"""
    capabilities: Names = ""
    """the resources of the node, such as `gpu=2,licence=1` (`capabilities.py`)"""
    dial: U32 = 0
    """the number of the connection, from 1, as in the `ClientHello`"""
    begun: U32 = 0
    """the `dial` of the hello that started the session, as in the `ClientHello`"""
    closed: U32 = 0
    """the number of workers that take no tasks now, counted from the end of `worker_names`, as in `WorkersClosed`"""
    named_only: U8 = 0
    """whether the agent's workers run only functions that a task gives by name, as workers in other languages do"""
    takes_rows: U8 = 0
    """whether the agent accepts tasks with many rows; otherwise the scheduler sends each row as a task of its own"""
    text_hash: U32 = 0
    """the hash of a certain text in the agent's workers, at least 2; `RANDOM_HASHES`: random hash seeds; 0: unknown"""
    held_owners: HeldOwnersColumn = b""
    """the tag of the owner of each run in `held`, as joined `HELD_OWNER` records; empty: the tag is 0 for all runs"""


@travels(AGENT_TO_SCHEDULER)
class WorkersClosed:
    """The number of workers, from the end of the agent's list, that take no tasks and return their queued tasks."""

    closed: U32


@travels(AGENT_TO_SCHEDULER)
class WorkersPaused:
    """The number of paused workers, which start no tasks: memory and disk for values are full on their host."""

    held: U32


@travels(SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class RunTask:
    """The request to run a task on one of the agent's workers."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    """the number of the run, unique among all runs of this scheduler; later runs have greater numbers, modulo 2**32"""
    function_id: ObjectIdColumn
    payload: Bytes
    object_ids: Annotated[bytes, "bytes", FixedRows.of(ID_BYTES)]
    """the ids of the objects among the arguments, as in `Task`. The id of a large result is there for each argument"""
    priority: I32 = 0
    """the priority of the task, as in `Task`"""
    name: Text = ""
    """the name of the task, as in `Task`"""
    options: Options = b""
    """the options of the task, as in `Task`"""
    account: U32 = 0
    """the account to which the task and its nested tasks belong: the number of a root client of an owner"""
    frames: FrameColumn = ()
    """the arguments that are too large for the block, as in `Task`"""
    rows: RowCount = 0
    """the number of calls, as in `Task`"""
    owner: U64 = 0
    """the tag of the owner of the account, see `scaler.wire.messages.accounts`"""


@travels(SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class RunCancel:
    """The request to drop a task from the worker's queue, or to stop the task. The `RunResult` reports the outcome."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    rows: RowCount = 0
    """the number of rows of a range, as in `RunTask`; 0 for a single task, or for one row of a range"""


@travels(SCHEDULER_TO_AGENT)
class RecallRequest:
    """The request to return a queued task that no processor has received. Sent when other workers are idle."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RecallResponse:
    """The report that the agent returns a task that has not started. The task belongs to the scheduler again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    rows: RowCount = 0
    """the number of rows, as in `RunTask`"""


@travels(AGENT_TO_SCHEDULER, PROCESSOR_TO_AGENT)
class RunResult:
    """How one run of a task ended. The agent keeps the result until the scheduler acknowledges it."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    status: StatusColumn
    payload: Bytes
    duration_us: U32
    """the wall time of the call in microseconds, rounded up; 0: not measured; at most the greatest UInt32"""
    frames: FrameColumn
    """the result, if too large for the payload"""
    profile: ProfileColumn = b""
    """a `PROFILE`, if the run was measured; otherwise empty"""
    failure: Reason = ""
    """the exception of a failed run, shortened for monitors; not trusted, because the processor writes this text"""
    location: Bytes = b""
    """the location of the result, instead of the frames; the agent keeps the result until a request to delete it"""
    rows: RowCount = 0
    """the number of ended rows, from this id on; if the status is success, the payload has a block for each row"""
    statuses: Bytes = b""
    """if the status is success: the status of each row as a byte; empty: all rows succeeded"""
    running: U32 = 0
    """0, unless the range ended early, after its first `rows` rows, of which there may be none: then 1 + the number of
    the row that is a run of its own from now on, with this attempt; all other rows return to the scheduler
    """


@travels(SCHEDULER_TO_AGENT)
class RunQuestion:
    """The request to report the state of this run. The answer is a `RunStatus`."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RunStatus:
    """The state of a run at its worker."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    state: RunStateColumn
    run_ms: U32 = 0
    """for how long the call has run; for a queued run: for how long its worker's present call has run; 0: unknown"""
    pid: U32 = 0
    """the id of the process that runs the task; 0: unknown"""


@travels(AGENT_TO_SCHEDULER)
class RunBlocked:
    """The report that a waiting task gives up its slot. Sent again on each new connection while the task waits."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RunUnblocked:
    """The report that a blocked task has stopped waiting and occupies its slot again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RunOutput:
    """A line that a task has written. Sent before the result of the run; a lost line is not resent."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    stream: StreamColumn
    time_us: U64
    """the time of the line in microseconds since 1970, by the clock of the worker's host"""
    dropped: U32
    """how many lines of the task are missing between the previous line and this line"""
    text: Line = ""
    row: U32 = 0
    """for a range: the number of the row that has written the line"""


@travels(AGENT_TO_SCHEDULER)
class WorkerHeartbeat:
    """A sign of life of the agent, sent regularly."""

    sent_ns: U64


@travels(SCHEDULER_TO_AGENT)
class WorkerHeartbeatEcho:
    """The scheduler's answer to a `WorkerHeartbeat`."""

    sent_ns: U64
    agents: U32 = 0
    """the number of agents of the scheduler, which each agent reports to the next scheduler"""
    value_bytes: U64 = 0
    """the size up to which the scheduler accepts a value now; 0: unknown"""


@travels(AGENT_TO_SCHEDULER)
class ProcessorGone:
    """The report that a processor and its clients have ended. The latest reports are repeated on new connections."""

    processor: U32


@travels(SCHEDULER_TO_AGENT)
class ProcessorNews:
    """The report whether a message is in transit to a client whose task does nothing but wait."""

    processor: U32
    wait: U32
    """the number of the wait, as in `ClientResting`"""
    has_news: U8
    """whether a message was sent to the client; if not, all have arrived, and the client's process may be stopped"""


@travels(AGENT_TO_SCHEDULER)
class DrainRequest:
    """An agent's request to get no new tasks. The agent returns queued tasks, and leaves when no task runs."""

    reason: Reason


@travels(AGENT_TO_SCHEDULER)
class DisconnectRequest:
    """The report that the agent leaves. The scheduler takes back the unfinished runs of the agent."""

    reason: Reason


@travels(SCHEDULER_TO_AGENT)
class DisconnectResponse:
    """The permission for an agent to leave. An agent that did not request the permission must leave too."""

    reason: Reason


class WatchedPart(IntFlag):
    """The parts of a report that an agent sends after a `WatchRequest`."""

    WORKERS = 1
    PROCESSORS = 2
    BINS = 4
    FUNCTIONS = 8
    RUNS = 16


@travels(SCHEDULER_TO_AGENT)
class WatchRequest:
    """The request to report the activity of the workers from now on, every `interval_ms` milliseconds."""

    interval_ms: U32
    """the time between two reports; 0: stop reporting"""
    parts: U8
    """the parts of each report, as a sum of `WatchedPart`"""


@travels(SCHEDULER_TO_AGENT)
class RestartRequest:
    """The request to replace the worker processes, after their present tasks; later tasks run in new processes."""

    reason: Reason


@travels(SCHEDULER_TO_AGENT)
class LeaveRequest:
    """The request to an agent to leave when all running tasks have ended, without a time limit."""

    reason: Reason


@travels(AGENT_TO_SCHEDULER)
class AgentState:
    """The activity of an agent and its workers. A 0 means unknown. `scaler.wire.messages.monitor` defines the rows."""

    host: Text = ""
    engine: Text = ""
    pid: U32 = 0
    cpu_permille: U32 = 0
    rss_bytes: U64 = 0
    free_bytes: U64 = 0
    lag_us: U32 = 0
    workers: Annotated[bytes, "bytes", FixedRows.of(WORKER_ROW.size)] = b""
    processors: Annotated[bytes, "bytes", FixedRows.of(PROCESSOR_ROW.size)] = b""
    bins: Annotated[bytes, "bytes", FixedRows.of(BIN_ROW.size)] = b""
    functions: Annotated[bytes, "bytes", FixedRows.of(FUNCTION_ROW.size)] = b""
    runs: Annotated[bytes, "bytes", FixedRows.of(RUN_ROW.size)] = b""
    hot_bytes: U64 = 0
    hot_most_bytes: U64 = 0
    cold_bytes: U64 = 0
    cold_most_bytes: U64 = 0
    spilled_bytes: U64 = 0
    read_bytes: U64 = 0
    held_workers: U32 = 0
