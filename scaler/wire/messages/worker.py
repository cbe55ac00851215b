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

HELD_RUN = struct.Struct("<16sIH")
"""A task that an agent still has: its id, the attempt and the worker."""

RANDOM_HASHES = 1
"""The `text_hash` of workers whose user has asked for random hash seeds."""

HELD_MOST = 250_000
"""The most runs that a hello names. Another scheduler starts the tasks of further runs again."""

HeldColumn = Annotated[bytes, "bytes", FixedRows(HELD_RUN.size, HELD_MOST)]
HELD_OWNER = struct.Struct("<Q")
"""The tag of the owner of a run."""
HeldOwnersColumn = Annotated[bytes, "bytes", FixedRows(HELD_OWNER.size, HELD_MOST)]


@travels(AGENT_TO_SCHEDULER)
class WorkerHello:
    """The first message of a cluster's agent on every connection."""

    protocol_version: U16
    package_version: Text
    python_version: Text
    cloudpickle_version: Text
    agent_id: Id
    """random, known only to the agent and the scheduler: an agent resumes its workers with it on a new connection"""
    worker_names: Names
    """one per worker, separated by commas; messages name a worker by its position in this list"""
    held: HeldColumn
    """the runs that the agent still has, including unacknowledged results: joined `HELD_RUN` records"""
    agent_token: Id = NO_ID
    """random, known to the agent, its processors and the scheduler; proves where clients inside tasks run"""
    resumes: U8 = 0
    """`RESUMING` or `RETURNING`; 0 for a new agent"""
    heard: U64 = 0
    """to resume: the highest number received from the scheduler"""
    agents: U32 = 0
    """the number of agents of its last scheduler, including itself; 0: it had no scheduler, or does not know"""
    capabilities: Names = ""
    """the resources of the node, such as `gpu=2,licence=1` (`capabilities.py`)"""
    dial: U32 = 0
    """as in the hello of a client"""
    begun: U32 = 0
    """as in the hello of a client"""
    closed: U32 = 0
    """the number of workers, counted from the end of the list, that take no tasks now, as in `WorkersClosed`"""
    named_only: U8 = 0
    """1: its workers run named functions only, as workers in other languages do"""
    takes_rows: U8 = 0
    """1: it accepts tasks with many rows; 0: each row is a task"""
    text_hash: U32 = 0
    """the hash of a text in its workers, at least 2; `RANDOM_HASHES`; 0: unknown"""
    held_owners: HeldOwnersColumn = b""
    """the tags of the owners of the runs in `held`, as `HELD_OWNER` records; empty: 0 for all"""


@travels(AGENT_TO_SCHEDULER)
class WorkersClosed:
    """The last `closed` workers stop taking tasks and return their queued ones. The others take tasks."""

    closed: U32


@travels(AGENT_TO_SCHEDULER)
class WorkersPaused:
    """The number of paused workers, which start nothing because memory and disk for values are full on their host."""

    held: U32


@travels(SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class RunTask:
    """Run a task on one of the agent's workers."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    """unique among all runs of this scheduler; later ones are greater, modulo 2**32"""
    function_id: ObjectIdColumn
    payload: Bytes
    object_ids: Annotated[bytes, "bytes", FixedRows.of(ID_BYTES)]
    """as in `Task`; the id of a large result of a graph is in it once for each argument that it is"""
    priority: I32 = 0
    """as in `Task`"""
    name: Text = ""
    """as in `Task`"""
    options: Options = b""
    """as in `Task`"""
    account: U32 = 0
    """the account that the task and its nested tasks count for: the number of a root client of an owner"""
    frames: FrameColumn = ()
    """as in `Task`"""
    rows: RowCount = 0
    """as in `Task`"""
    owner: U64 = 0
    """the owner of the account (`scaler.wire.messages.accounts`)"""


@travels(AGENT_TO_SCHEDULER)
class RunSplit:
    """The agent has split this task: each of its rows is a task of its own now, with this attempt, at this worker."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    rows: RowCount


@travels(SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class RunCancel:
    """Drop the task from the worker's queue, or stop it. Its result reports the outcome."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(SCHEDULER_TO_AGENT)
class RecallRequest:
    """Return the task, because other workers are idle. A task that a processor has received stays."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RecallResponse:
    """The task has not started and belongs to the scheduler again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    rows: RowCount = 0
    """as in the task"""


@travels(AGENT_TO_SCHEDULER, PROCESSOR_TO_AGENT)
class RunResult:
    """How one run of a task ended. The agent keeps it until the scheduler acknowledges it."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    status: StatusColumn
    payload: Bytes
    duration_us: U32
    """wall time of the call, capped at the largest value"""
    frames: FrameColumn
    """the result, if it is too large for the payload"""
    profile: ProfileColumn = b""
    """a `PROFILE`, if it was measured"""
    failure: Reason = ""
    """of a failed run: type and message, cut, for monitors; written by the processor, so it is not trusted"""
    location: Bytes = b""
    """the location of the result, instead of the frames: the agent keeps it until a request to delete it"""
    rows: RowCount = 0
    """as in the task: this many of its rows have ended, from the one with this id on; if they succeeded, the payload
    has a block for each
    """
    statuses: Bytes = b""
    """if the status is success: the status of each row as a byte; empty: all succeeded"""


@travels(SCHEDULER_TO_AGENT)
class RunQuestion:
    """Report the state of this run. Answered by a `RunStatus`."""

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
    """the time since its call started; of a queued run: of the one that the worker runs; 0: unknown"""
    pid: U32 = 0
    """the process that runs it; 0: unknown"""


@travels(AGENT_TO_SCHEDULER)
class RunBlocked:
    """The task waits for other tasks and gives up its slot. Sent again on a new connection while it waits."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RunUnblocked:
    """The task has stopped waiting and occupies its slot again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RunOutput:
    """A line that a task has written. Sent before the result of the run, and not resent if lost."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    stream: StreamColumn
    time_us: U64
    """microseconds since 1970, by the clock of the worker's host"""
    dropped: U32
    """the number of lines left out just before this one"""
    text: Line = ""


@travels(AGENT_TO_SCHEDULER)
class WorkerHeartbeat:
    """The agent is alive."""

    sent_ns: U64


@travels(SCHEDULER_TO_AGENT)
class WorkerHeartbeatEcho:
    """The scheduler is alive."""

    sent_ns: U64
    agents: U32 = 0
    """the number of the scheduler's agents, which each agent reports to the next scheduler"""
    value_bytes: U64 = 0
    """the most bytes of one value that the scheduler accepts now; 0: unknown"""


@travels(AGENT_TO_SCHEDULER)
class ProcessorGone:
    """A processor and the clients in it have ended. Resent on each new connection for the latest processors."""

    processor: U32


@travels(SCHEDULER_TO_AGENT)
class ProcessorNews:
    """Whether any message is in transit to a client inside a processor that only waits."""

    processor: U32
    wait: U32
    """as in `ClientResting`"""
    has_news: U8
    """1: a message was sent to it; 0: all messages to it have arrived, so it may be stopped"""


@travels(AGENT_TO_SCHEDULER)
class DrainRequest:
    """The agent drains: give it no new tasks. It returns the queued ones, and leaves after the running ones."""

    reason: Reason


@travels(AGENT_TO_SCHEDULER)
class DisconnectRequest:
    """The agent leaves: take back its unfinished runs."""

    reason: Reason


@travels(SCHEDULER_TO_AGENT)
class DisconnectResponse:
    """The agent may leave; without a request, it must leave."""

    reason: Reason


class WatchedPart(IntFlag):
    """The parts of a report that a watched agent sends."""

    WORKERS = 1
    PROCESSORS = 2
    BINS = 4
    FUNCTIONS = 8
    RUNS = 16


@travels(SCHEDULER_TO_AGENT)
class WatchRequest:
    """Report the activity of the workers repeatedly from now on."""

    interval_ms: U32
    """the time between two reports; 0: stop"""
    parts: U8
    """a sum of `WatchedPart`"""


@travels(SCHEDULER_TO_AGENT)
class RestartRequest:
    """Replace the worker processes: each ends after its present tasks. Later tasks run in new processes."""

    reason: Reason


@travels(SCHEDULER_TO_AGENT)
class LeaveRequest:
    """Leave when all running tasks have ended, however long that takes."""

    reason: Reason


@travels(AGENT_TO_SCHEDULER)
class AgentState:
    """The activity of an agent and its workers; unknown figures are 0. The rows are those of `messages/monitor.py`."""

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
