"""Between an agent and the scheduler. As `protocol/worker.capnp`."""

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
"""The most runs that a hello names. Tasks of further ones begin anew, if there is another scheduler."""

HeldColumn = Annotated[bytes, "bytes", FixedRows(HELD_RUN.size, HELD_MOST)]
HELD_OWNER = struct.Struct("<Q")
"""The owner of such a run."""
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
    """one per worker slot, separated by commas; a worker is addressed by its position in this list"""
    held: HeldColumn
    """the runs that the agent still has, including results that the scheduler may not have: `HELD_RUN` records, one
    after the other"""
    agent_token: Id = NO_ID
    """random, known to the agent, its processors and the scheduler; clients inside its tasks prove with it where they
    are"""
    resumes: U8 = 0
    """`GOES_ON`, if its session still exists; `IS_BACK`; 0: it is new"""
    heard: U64 = 0
    """if it goes on: the highest number of the scheduler's messages that has come"""
    agents: U32 = 0
    """how many agents its last scheduler had, itself among them; 0: it had no scheduler, or does not know"""
    capabilities: Names = ""
    """the resources of the node, such as `gpu=2,licence=1` (`capabilities.py`)"""
    dial: U32 = 0
    """as in the hello of a client"""
    begun: U32 = 0
    """as in the hello of a client"""
    closed: U32 = 0
    """so many of the workers, the last ones, take no tasks now, as in `WorkersClosed`"""
    named_only: U8 = 0
    """1: its workers run named functions only, as those in other languages do"""
    takes_rows: U8 = 0
    """1: it takes tasks of many rows; else each row is a task"""
    text_hash: U32 = 0
    """the hash of a text in its workers, which is at least 2; `RANDOM_HASHES`; 0: not known"""
    held_owners: HeldOwnersColumn = b""
    """the tags of the owners of the runs in `held`: `HELD_OWNER` records, one for each run; empty: 0 for all"""


@travels(AGENT_TO_SCHEDULER)
class WorkersClosed:
    """So many workers, the last ones, take no tasks from now on and give back those that wait. The others take some."""

    closed: U32


@travels(AGENT_TO_SCHEDULER)
class WorkersPaused:
    """So many workers begin nothing, because memory and disk for values are full on their host."""

    held: U32


@travels(SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class RunTask:
    """Run a task on one of the agent's workers."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    """no other run of this scheduler has the same number; later ones are greater, modulo 2**32"""
    function_id: ObjectIdColumn
    payload: Bytes
    object_ids: Annotated[bytes, "bytes", FixedRows.of(ID_BYTES)]
    """also one for each place where a large result of a graph is an argument"""
    priority: I32 = 0
    """as in `Task`"""
    name: Text = ""
    """as in `Task`"""
    options: Options = b""
    """as in `Task`"""
    account: U32 = 0
    """the account that it counts for: a number that the scheduler gives each root client of an owner. Its nested tasks
    have the same"""
    frames: FrameColumn = ()
    """as in `Task`"""
    rows: RowCount = 0
    """as in `Task`"""
    owner: U64 = 0
    """to whom the account belongs (`scaler.wire.messages.accounts`)"""


@travels(AGENT_TO_SCHEDULER)
class RunSplit:
    """Something has happened to a row of this task: each of its rows is a task of its own from now on, with this
    attempt, at this worker.
    """

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    rows: RowCount


@travels(SCHEDULER_TO_AGENT, AGENT_TO_PROCESSOR)
class RunCancel:
    """Drop the task from the worker's queue, or stop it. Its result says what happened."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(SCHEDULER_TO_AGENT)
class RecallRequest:
    """Give the task back, because others are idle. A task that its processor has stays."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RecallResponse:
    """The task did not start here and belongs to the scheduler again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    rows: RowCount = 0
    """as in the task"""


@travels(AGENT_TO_SCHEDULER, PROCESSOR_TO_AGENT)
class RunResult:
    """How one run of a task ended. The agent keeps it until the scheduler has heard it."""

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
    """of a failed run: type and message, cut, for those who watch; said by the processor, and not to be trusted"""
    location: Bytes = b""
    """the location of the result, instead of the frames: the agent keeps it until it is told to delete it"""
    rows: RowCount = 0
    """as in the task: so many of its rows have ended, from the one with this id on; of success, the payload has a block
    for each"""
    statuses: Bytes = b""
    """of success: a byte for each row, its status; empty: all have succeeded"""


@travels(SCHEDULER_TO_AGENT)
class RunQuestion:
    """Where is this run? Answered by a `RunStatus`."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RunStatus:
    """Where a run is at its worker."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    state: RunStateColumn
    run_ms: U32 = 0
    """since its call began; of a run that is in the queue: of the one that the worker runs; 0: not known"""
    pid: U32 = 0
    """the process that executes it; 0: not known"""


@travels(AGENT_TO_SCHEDULER)
class RunBlocked:
    """The task waits for other tasks and gives up its slot. Sent again on a new connection, while it waits."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RunUnblocked:
    """The task does not wait any more and occupies its slot again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@travels(AGENT_TO_SCHEDULER)
class RunOutput:
    """A line that a task has written. Said before the result of the run; one that is lost is not said again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    stream: StreamColumn
    time_us: U64
    """when: microseconds since 1970, by the clock of the worker's host"""
    dropped: U32
    """so many lines before this one were left out"""
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
    """how many agents the scheduler has; each says it to the next scheduler"""
    value_bytes: U64 = 0
    """the most bytes of one value that it takes now; 0: not said"""


@travels(AGENT_TO_SCHEDULER)
class ProcessorGone:
    """A processor has ended, and with it the clients inside. Sent again on each new connection, for the latest ones."""

    processor: U32


@travels(SCHEDULER_TO_AGENT)
class ProcessorNews:
    """Whether any message is on its way to a client inside a processor that only waits."""

    processor: U32
    wait: U32
    """as in `ClientResting`"""
    has_news: U8
    """1: a message was sent to it; 0: none, and all its messages have arrived: it may be stopped"""


@travels(AGENT_TO_SCHEDULER)
class DrainRequest:
    """The agent will leave: give it no new tasks. It gives back those that wait, and leaves after the others."""

    reason: Reason


@travels(AGENT_TO_SCHEDULER)
class DisconnectRequest:
    """The agent leaves: take back its unfinished runs."""

    reason: Reason


@travels(SCHEDULER_TO_AGENT)
class DisconnectResponse:
    """The agent may leave; or, unasked, must leave."""

    reason: Reason


class WatchedPart(IntFlag):
    """What a watched agent is asked for."""

    WORKERS = 1
    PROCESSORS = 2
    BINS = 4
    FUNCTIONS = 8
    RUNS = 16


@travels(SCHEDULER_TO_AGENT)
class WatchRequest:
    """Report what the workers do, again and again, from now on."""

    interval_ms: U32
    """0: not any more"""
    parts: U8
    """a sum of `WatchedPart`"""


@travels(SCHEDULER_TO_AGENT)
class RestartRequest:
    """Go on with fresh worker processes: each ends after the tasks that it has. What comes after this runs in those."""

    reason: Reason


@travels(SCHEDULER_TO_AGENT)
class LeaveRequest:
    """Leave when the tasks that run have ended, however long that takes."""

    reason: Reason


@travels(AGENT_TO_SCHEDULER)
class AgentState:
    """What an agent and its workers do; unknown figures are 0. The rows are those of `messages/monitor.py`."""

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
