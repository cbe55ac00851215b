"""Messages from the scheduler to monitors, as in `protocol/monitor.capnp`, which explains each field.

All text is short, and contains nothing of arguments or results. A short id is the `public_id` of an id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from scaler.wire.messages.columns import U8, U32, U64, Bytes, Line, Names, Reason, Text, Traceback
from scaler.wire.messages.common import StreamColumn
from scaler.wire.messages.directions import SCHEDULER_TO_MONITOR, travels

WORKER_ROW = struct.Struct("<IIIHHQ8sII")
"""The encoding of the state of one worker:

- CPU time in permille of a core
- number of tasks
- number of queued tasks
- number of blocked tasks
- flags
- memory in bytes
- short id of the running function
- milliseconds since the running call started
- number of ended runs
"""
PROCESSOR_ROW = struct.Struct("<IHHIIQQ8s8s")
"""The encoding of the state of one process:

- process id
- position of the worker
- flags
- CPU time in permille of a core
- milliseconds since the task started
- memory in bytes
- peak memory in bytes
- short id of the task
- short id of the function
"""
BIN_ROW = struct.Struct("<IIIIII8s")
"""The encoding of the recent work of one worker:

- position of the worker
- milliseconds that the worker was busy, including unfinished runs
- number of ended runs: success, failed, canceled, other
- short id of the function that kept the worker busy longest
"""
FUNCTION_ROW = struct.Struct("<8sIQII32I")
"""The encoding of the work of an agent on the tasks of one function since the previous row:

- short id of the function
- number of tasks that the agent has now
- microseconds of the measured runs, which succeeded or failed
- microseconds of the shortest and of the longest of these runs; each row of a range has the mean of its range
- histogram of the durations of these runs (`StateFunction.durations`)

The row is not on the stream: the scheduler adds up the rows of all agents.
"""
DURATIONS = struct.Struct("<32I")
"""A histogram of the durations of a function's runs, see `StateFunction.durations`."""
RUN_ROW = struct.Struct("<16sHHI8s")
"""Encoding of a running task, not on the stream: id, worker's position, flags, run time in ms, function's short id."""
INITIALIZED, HAS_TASK, SUSPENDED, TASK_LOCK, REPORTS = 1, 2, 4, 8, 16
"""Flags of workers and processors:

- `INITIALIZED`: ready for tasks
- `HAS_TASK`: runs a task
- `SUSPENDED`: stopped
- `TASK_LOCK`: the task is blocked and holds no slot
- `REPORTS`: only of workers: the task has recently reported its progress
"""
UNSEEN_SECONDS = 10.0
"""The time after which a run that no agent's report names any longer is not shown as running."""
ENDED, SENT, RECEIVED = range(3)
"""The values of `StateCount.group`, in this order: counts of ended tasks, of sent items, and of received items."""


def whole_rows(row: struct.Struct, packed: bytes) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a message. An incomplete row at its end is ignored."""
    return row.iter_unpack(packed[: len(packed) // row.size * row.size])


def unseen_after_us(interval_ms: int) -> int:
    """Return `UNSEEN_SECONDS`, or the time of three reports if that is longer, in microseconds.

    `interval_ms`: the time between two reports of an agent.
    """
    return max(int(1e6 * UNSEEN_SECONDS), 3000 * interval_ms)


@travels(SCHEDULER_TO_MONITOR)
class StateHead:
    """The first item of each message: the scheduler, the time of the state, and how many of all entries are shown."""

    scheduler: Bytes = b""
    time_us: U64 = 0
    shown: U32 = 0
    total: U64 = 0
    more: U8 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateScheduler:
    """The state of the scheduler as a whole. Sent on the topic `scheduler`."""

    address: Text = ""
    package_version: Text = ""
    started_us: U64 = 0
    cpu_permille: U32 = 0
    rss_bytes: U64 = 0
    free_bytes: U64 = 0
    lag_us: U32 = 0
    lag_most_us: U32 = 0
    objects: U32 = 0
    object_bytes: U64 = 0
    waiting: U64 = 0
    running: U64 = 0
    agents: U32 = 0
    workers: U32 = 0
    clients: U32 = 0
    queue_size: U32 = 0
    shared_bytes: U64 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateCount:
    """The value of one counter since the start of the scheduler. Sent on the topic `scheduler`."""

    group: U8 = 0
    name: Text = ""
    amount: U64 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateWaiting:
    """The open tasks that request the same resources, and why waiting tasks wait. Sent on the topic `scheduler`."""

    asks: Text = ""
    waits_for: Text = ""
    sentence: Reason = ""
    waiting: U64 = 0
    running: U64 = 0
    places: U32 = 0
    work_us: U64 = 0
    unmeasured: U64 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateVerdict:
    """The limit of the cluster, and the estimated time until the open tasks have ended. Sent on `scheduler`."""

    word: Text = ""
    sentence: Reason = ""
    warning: Reason = ""
    left_us: U64 = 0
    idle_since_us: U64 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateClient:
    """The state of one client. Sent on the topic `clients`."""

    client: Bytes = b""
    label: Text = ""
    root: Bytes = b""
    is_away: U8 = 0
    open: U64 = 0
    waiting: U64 = 0
    seen_ms: U32 = 0
    owner: Text = ""


@travels(SCHEDULER_TO_MONITOR)
class StateAgent:
    """The state of an agent and its workers; `workers` has one row for each worker. Sent on the topic `workers`."""

    agent: Bytes = b""
    host: Text = ""
    engine: Text = ""
    worker_names: Names = ""
    python_version: Text = ""
    capabilities: Text = ""
    pid: U32 = 0
    cpu_permille: U32 = 0
    rss_bytes: U64 = 0
    free_bytes: U64 = 0
    lag_us: U32 = 0
    seen_ms: U32 = 0
    is_leaving: U8 = 0
    workers: Bytes = b""
    hot_bytes: U64 = 0
    hot_most_bytes: U64 = 0
    cold_bytes: U64 = 0
    cold_most_bytes: U64 = 0
    spilled_bytes: U64 = 0
    read_bytes: U64 = 0
    held_workers: U32 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateProcessors:
    """The processes of an agent's workers, one row for each process. Sent on the topic `processors`."""

    agent: Bytes = b""
    processors: Bytes = b""


@travels(SCHEDULER_TO_MONITOR)
class StateFunction:
    """The tasks of one function, and its measured runs. Sent on the topic `functions`."""

    function: Bytes = b""
    name: Text = ""
    waiting: U64 = 0
    running: U64 = 0
    success: U64 = 0
    failed: U64 = 0
    canceled: U64 = 0
    runs: U64 = 0
    run_us: U64 = 0
    least_us: U32 = 0
    most_us: U32 = 0
    durations: Bytes = b""
    waits_for: Reason = ""
    asks: Text = ""


@travels(SCHEDULER_TO_MONITOR)
class StateBins:
    """The work of an agent's busy workers since the previous message, a row per worker. Sent on the topic `bins`."""

    agent: Bytes = b""
    bins: Bytes = b""


@travels(SCHEDULER_TO_MONITOR)
class StateFailure:
    """The failures of one kind. Sent on the topic `failures`."""

    failure: Bytes = b""
    type: Text = ""
    message: Reason = ""
    function: Bytes = b""
    function_name: Text = ""
    times: U64 = 0
    first_us: U64 = 0
    last_us: U64 = 0
    task: Bytes = b""
    worker: Text = ""
    traceback: Traceback = ""


@travels(SCHEDULER_TO_MONITOR)
class StateTask:
    """The present state of one task. Sent on the topics `tasks` (a sample) and `task/ID` (one task)."""

    task: Bytes = b""
    name: Text = ""
    function: Bytes = b""
    function_name: Text = ""
    client: Bytes = b""
    graph: Bytes = b""
    state: Text = ""
    worker: Text = ""
    attempt: U32 = 0
    submitted_us: U64 = 0
    started_us: U64 = 0
    ended_us: U64 = 0
    duration_us: U32 = 0
    cpu_us: U32 = 0
    peak_bytes: U64 = 0
    reason: Reason = ""
    owner: Text = ""
    client_label: Text = ""
    seen_us: U64 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateRuns:
    """All open tasks of the sample, and those that agents report as running. Sent last on the topic `tasks`."""

    running: Bytes = b""
    others: Bytes = b""
    interval_ms: U32 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateMove:
    """One state transition of a task after the subscription. Sent on the topic `task/ID`."""

    task: Bytes = b""
    time_us: U64 = 0
    event: Text = ""
    state: Text = ""
    worker: Text = ""
    attempt: U32 = 0
    reason: Reason = ""


@travels(SCHEDULER_TO_MONITOR)
class StateGraph:
    """The state of a graph of tasks. Sent on the topic `graphs`."""

    graph: Bytes = b""
    name: Text = ""
    client: Bytes = b""
    nodes: U32 = 0
    waiting: U32 = 0
    running: U32 = 0
    success: U32 = 0
    failed: U32 = 0
    canceled: U32 = 0
    submitted_us: U64 = 0
    ended_us: U64 = 0
    owner: Text = ""
    client_label: Text = ""


@travels(SCHEDULER_TO_MONITOR)
class StateJob:
    """The state of a job: rows of one function that the scheduler keeps under a name. Sent on the topic `jobs`."""

    job: Bytes = b""
    name: Text = ""
    owner: Text = ""
    program: Text = ""
    function_name: Text = ""
    state: Text = ""
    reason: Reason = ""
    all_rows_known: U8 = 0
    rows: U64 = 0
    done: U64 = 0
    failed: U64 = 0
    handed_out: U32 = 0
    running: U32 = 0
    size_bytes: U64 = 0
    created_us: U64 = 0
    changed_us: U64 = 0
    failures: Traceback = ""


@travels(SCHEDULER_TO_MONITOR)
class StateNode:
    """The state of a task of a graph with at most 2000 tasks. Sent on `graph/ID`: all tasks, then the changed ones."""

    graph: Bytes = b""
    position: U32 = 0
    task: Bytes = b""
    function_name: Text = ""
    dependencies: Bytes = b""
    state: Text = ""
    duration_us: U32 = 0


@travels(SCHEDULER_TO_MONITOR)
class StateObject:
    """The state of one stored object; larger objects are sent first. Sent on the topic `objects`."""

    object: Bytes = b""
    name: Text = ""
    client: Bytes = b""
    size_bytes: U64 = 0
    copies: U32 = 0
    users: U32 = 0
    is_shared: U8 = 0
    kind: U8 = 0
    place: U8 = 0
    owner: Text = ""


@travels(SCHEDULER_TO_MONITOR)
class StateEvent:
    """An event that happened in the scheduler. Sent on the topic `events`."""

    time_us: U64 = 0
    kind: Text = ""
    subject: Text = ""
    reason: Reason = ""


@travels(SCHEDULER_TO_MONITOR)
class StateLine:
    """A line that a task has written. Sent on the topic `task/ID`."""

    task: Bytes = b""
    number: U64 = 0
    time_us: U64 = 0
    stream: StreamColumn = 0
    dropped: U32 = 0
    worker: Text = ""
    text: Line = ""
