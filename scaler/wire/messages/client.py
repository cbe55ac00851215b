"""Messages between a client and the scheduler, as in `protocol/client.capnp`."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Annotated

from scaler.ids import NO_ID, GraphId
from scaler.wire.messages.columns import (
    I32,
    U8,
    U16,
    U32,
    U64,
    Bytes,
    FrameColumn,
    GraphIdColumn,
    Id,
    IdRow,
    Line,
    Names,
    ObjectIdColumn,
    Options,
    PositionRow,
    Reason,
    RowCount,
    TaskIdColumn,
    Text,
)
from scaler.wire.messages.common import ProfileColumn, StatusColumn, StreamColumn
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, travels

SCALES = "scale-"
"""The prefix of the labels by which the clients of `scaler_scale` are recognised."""


class GoodbyeKind(IntEnum):
    """Why a client leaves."""

    DISCONNECT = 0
    """the client has finished; the scheduler cancels the open work of this client"""
    SHUTDOWN = 1
    """the scheduler and all workers end too"""


NO_GRAPH = GraphId(NO_ID)
"""The graph of a task that is in no graph."""

SHOWN_TASKS_MOST = 2000
"""A graph with more tasks is not shown task by task, and the keys of its tasks are not sent."""

TOKEN_BYTES = 8
"""The size of a token. Calls, and requests that change a job, have tokens. A known token shows that one was resent."""


class JobVerb(IntEnum):
    """The kinds of requests about a job. `amount`, `first`, `body` and `frames` are fields of the `JobRequest`.

    The *terms* of a job are its function, options and limits (JSON). Its *revision* is a number that rises with each
    change of terms or stored rows. Its *work* is the number of the latest version that changed the function or the
    rows.
    """

    OPEN = 0
    """find the job, or create it with the terms in the body. `amount`: `JobOpenFlags`. `first`, if `amount` is not 0:
    the revision that the client has compared
    """
    ROWS = 1
    """store `amount` rows from `first` on. The frames: the digests of the rows, and the block of the rows. The body:
    the token in the terms (8 bytes) and the digest of the range
    """
    OBJECT = 2
    """store an object. The body: the id of the object. `amount`: the `InstructionKind` of the object"""
    SEAL = 3
    """complete the rows: the job has `first` rows"""
    READ = 4
    """return outcomes of rows from position `first` on, as soon as there is one, and the position after them. `amount`:
    `JobReadFlags`
    """
    SHOW = 5
    """return the state of the job. `amount`: `AT_END` or `VERSIONS`"""
    LIST = 6
    """return the states of all jobs of the owner, or of all owners if `amount` is 1, which only admins may request"""
    FAILURES = 7
    """return at most `amount` failed rows from row `first` on, with the arguments of each row"""
    RETRY = 8
    """run failed rows again; the body identifies the request, so that a resent request does nothing"""
    CANCEL = 9
    """cancel the job; results of ended rows are kept"""
    FORGET = 10
    """cancel the job and delete its record; `amount` 1: only if no row has ended and no other program uses the job"""
    LEAVE = 11
    """report that this client no longer needs the job to run"""
    GIVE = 12
    """transfer the job, unless it runs, to the owner named in the body; only admins may request this"""
    ATTEND = 13
    """report, in each new session, that this client uses the job"""
    DIGESTS = 14
    """return the digests of the rows of the range at `first`, and which of these rows have ended"""
    REPLACE = 15
    """replace the stored range at `first`; rows whose digests differ lose their results and run again. The frames are
    as for `ROWS`. `amount`: the revision that the client has compared. The body begins with a token of the request
    """
    ARGUMENTS = 16
    """return the arguments of the row `first`, and the facts of its call"""
    TRUNCATE = 17
    """drop the rows from `first` on, and the results of these rows; `amount` and the body are as for `REPLACE`"""
    STORED = 18
    """return the stored function or value with the id in the body"""


AT_END, VERSIONS = 1, 2
"""Values of `amount` in `SHOW`. `AT_END`: answer when the job has ended. `VERSIONS`: add what each version has done."""


class JobOpenFlags(IntFlag):
    """Requests of a client that opens a job, as bits of the `amount` of `OPEN`."""

    RUN = 1
    """report that this client needs the job to run"""
    RETRY = 2
    """run failed rows again"""
    NEW_VERSION = 4
    """replace the terms of the job by the terms in the body; ended rows are kept"""
    DROP = 8
    """drop all results; used together with `NEW_VERSION`"""
    IF_NONE_ENDED = 16
    """make the new version only if no row has ended"""
    SAME_WORK = 32
    """the new version has the same function and the same rows"""
    SAME_ROWS = 64
    """the new version has another function and the same, complete rows. `first`: the work that the client knows"""


class JobReadFlags(IntFlag):
    """How a client reads rows, as bits of the `amount` of `READ`.

    Without `BY_LOG`, rows are read in their order, and a position is a row number. With `BY_LOG`, they are read in the
    order of the scheduler's log of ended rows, and a position is 0 or the one in an earlier answer. A position in
    another log counts as the beginning of the log; the client skips the rows that it has read.
    """

    ATTEND = 1
    """report that this client needs the job to run"""
    BY_LOG = 2
    """read the log: first the rows that had ended when the scheduler opened the job, in row order, then the others in
    the order in which their results were written to disk
    """
    ENDED_ONLY = 4
    """answer at once, and leave out rows that have not ended"""


class JobAnswerKind(IntEnum):
    """The kind of an answer about a job."""

    KNOWN = 0
    """the body is JSON: the state of the job"""
    ROWS = 1
    """the body and the frame are ended rows; if `first` is that of the request, no further row will end unless the job
    changes
    """
    REFUSED = 2
    """the request is refused for the given reason"""
    NOT_FOUND = 3
    """the scheduler has no such job"""
    WAITS = 4
    """a preliminary answer. The reason says what the job waits for; empty if the job no longer waits"""
    CONFLICT = 5
    """row `first` differs from the stored row, or the job has other work than the client knows; see the reason"""
    CHANGED = 6
    """the revision of the job is no longer the one that the client has compared; the client must compare again"""


# One byte; the codec refuses a number that the enumeration does not have.
GoodbyeColumn = Annotated[int, "u8", GoodbyeKind]
JobVerbColumn = Annotated[int, "u8", JobVerb]
JobStatusColumn = Annotated[int, "u8", JobAnswerKind]


@travels(CLIENT_TO_SCHEDULER)
class ClientHello:
    """The first message of a client on every connection."""

    protocol_version: U16
    package_version: Text
    python_version: Text
    cloudpickle_version: Text
    client_id: Id
    """a random id that only the client and the scheduler know, to resume the session on a new connection"""
    agent_token: Id = NO_ID
    """for a client inside a task: the agent's token, which proves where the client runs; otherwise `NO_ID`"""
    processor: U32 = 0
    """for a client inside a task: the number of the processor that runs the task. The agent never reuses a number"""
    resumes: U8 = 0
    """whether the client had a session: `RESUMING` or `RETURNING`; 0 for a new client"""
    heard: U64 = 0
    """the highest number received from the scheduler, if the client resumes its session"""
    account: U32 = 0
    """the client's account number, if the client had a session. Its running tasks pass this number to nested tasks"""
    dial: U32 = 0
    """the number of this connection, counted from 1, because hellos may arrive out of order; 0: no number"""
    label: Text = ""
    """the name of the program and where it runs, for people"""
    begun: U32 = 0
    """if the client resumes a session: the `dial` of the hello that started the session; 0: no number"""


@travels(CLIENT_TO_SCHEDULER)
class Task:
    """A task: the request to run a function."""

    task_id: TaskIdColumn
    function_id: ObjectIdColumn
    payload: Bytes
    """the block of arguments"""
    object_ids: IdRow
    """the ids of the objects among the arguments, joined"""
    priority: I32 = 0
    """depth and user's priority in one number, see `scaler.wire.messages.priority`; greater numbers run first"""
    name: Text = ""
    """the name that the user gave the task; empty: the name of the function"""
    options: Options = b""
    """encoded `RunOptions`; empty: all options have their defaults"""
    account: U32 = 0
    """from a client inside a task: the account of that task; otherwise 0, and the scheduler sets the account"""
    frames: FrameColumn = ()
    """the arguments that are too large for the block, in order"""
    rows: RowCount = 0
    """the number of calls, see `scaler.wire.messages.rows`; the payload has a block for each call; 0: one call"""
    owner: U64 = 0
    """from a client inside a task: the owner of that task; otherwise 0, and the scheduler sets the owner"""
    graph_id: GraphIdColumn = NO_GRAPH
    """the graph of the task; `NO_GRAPH`: the task is in no graph"""
    graph_tasks: U32 = 0
    """the number of tasks of the graph; 0: the task is in no graph"""
    dependencies: PositionRow = b""
    """the positions of those tasks of the graph whose results the task needs, as little-endian UInt32. The position of
    a task is the number of tasks of its graph that were sent before it
    """
    inputs: IdRow = b""
    """the ids of other tasks of this client whose results the task needs, joined"""
    unwanted: U8 = 0
    """whether only other tasks need the result of the task, and the client receives none"""
    named_by_key: U8 = 0
    """whether the name is the key of the task in its graph: viewers see it, and the runs have the function's name"""


@travels(CLIENT_TO_SCHEDULER)
class TaskCancel:
    """The request to cancel a task: to drop the task if it waits, or to stop the task if it runs."""

    task_id: TaskIdColumn
    waiting: U8 = 0
    """whether to cancel the task only if it has not started"""
    rows: RowCount = 0
    """the number of rows of the task, as in `Task`; the range may have ended early"""
    graph_id: GraphIdColumn = NO_GRAPH
    """the graph of the task, all tasks of which are cancelled; `NO_GRAPH`: the task is in no graph"""


@travels(SCHEDULER_TO_CLIENT)
class TaskResult:
    """How a task ended."""

    task_id: TaskIdColumn
    status: StatusColumn
    payload: Bytes
    size: U64
    """the size of a large result, which is an object with the id of the task; 0: the result is in the payload"""
    profile: ProfileColumn = b""
    """a `PROFILE`, if the task was measured; otherwise empty"""
    rows: RowCount = 0
    """the number of ended rows, as in `Task`. If the status is success, the payload has a block for each row"""
    statuses: Bytes = b""
    """if the status is success: the status of each row as a byte; empty: all rows succeeded"""
    duration_us: U32 = 0
    """for rows of a map: the run time of all rows, from which the client chooses the size of ranges; otherwise 0"""


@travels(CLIENT_TO_SCHEDULER)
class InputResult:
    """The result of a task of this client that has ended, for the tasks that have it among their `inputs`."""

    task_id: TaskIdColumn
    status: StatusColumn
    payload: Bytes
    """as in `TaskResult`"""
    size: U64 = 0
    """the size of a large result, which is a stored object with the id of the task; 0: the result is in the payload"""


@travels(CLIENT_TO_SCHEDULER)
class ClientHeartbeat:
    """A sign of life of the client, sent regularly."""

    sent_ns: U64
    """the time at the client in nanoseconds, which the echo repeats"""
    has_unsent: U8 = 0
    """whether the client has open work that was not sent, because the window is full"""


@travels(SCHEDULER_TO_CLIENT)
class ClientHeartbeatEcho:
    """The scheduler's answer to a `ClientHeartbeat`."""

    sent_ns: U64
    value_bytes: U64 = 0
    """the size up to which the scheduler accepts a value now; 0: unknown"""


@travels(CLIENT_TO_SCHEDULER)
class ClientResting:
    """The report that the task of this client does nothing but wait. All other items of the client were sent before."""

    wait: U32
    """the number of the wait, which the agent that runs the task also knows"""
    heard: U64
    """the highest number received from the scheduler"""


@travels(CLIENT_TO_SCHEDULER)
class ExplainRequest:
    """The request to report what a task waits for."""

    task_id: TaskIdColumn
    graph_id: GraphIdColumn = NO_GRAPH
    """the graph of the task; `NO_GRAPH` if the task is in no graph"""
    wanted: U8 = 0
    """whether the client's program waits for the result now: then a paused worker starts this task next"""


@travels(SCHEDULER_TO_CLIENT)
class ExplainResponse:
    """The state of a task, and what the task waits for."""

    task_id: TaskIdColumn
    state: Text
    """the state of the task as monitors name it; empty if the scheduler does not have the task"""
    waits_for: Text
    """the reason for waiting: one of the words of `scaler.wire.messages.vocabulary`"""
    sentence: Reason
    """what the task waits for, as a sentence for people, with advice"""
    worker: Text = ""
    """the worker that has the task, or ran it last"""
    tries: U32 = 0
    """the number of the present try of the task, from 1; 0: unknown"""
    past: Reason = ""
    """the reasons why the earlier tries of the task ended, for people"""
    state_ms: U64 = 0
    """for how many milliseconds the task has been in this state, at least; 0: unknown"""


@travels(CLIENT_TO_SCHEDULER)
class ClientDisconnect:
    """The report that the client leaves."""

    kind: GoodbyeColumn


@travels(SCHEDULER_TO_CLIENT)
class ClientShutdownResponse:
    """The answer to a requested shutdown: whether the scheduler will shut down."""

    accepted: U8
    reason: Reason


WORKERS, OBJECTS = 1, 2
"""Details that an `InfoRequest` can request, in this order: each worker; the objects of the requesting client."""


@travels(CLIENT_TO_SCHEDULER)
class InfoRequest:
    """The request to report the connected workers and clients. Replaces an earlier request with the same number."""

    number: U32
    detailed: U8 = 0
    """the details that the client also requests: `WORKERS`, `OBJECTS`, or 0"""
    workers: U32 = 0
    """the number of workers to wait for, with an answer whenever workers connect; 0: one answer only"""
    restart: U8 = 0
    """whether to ask all agents, before the answer, to replace their worker processes"""
    leave: Names = ""
    """the names of workers; each agent of these workers leaves when the running tasks of the agent have ended"""
    cancel: Names = ""
    """the short ids, in hex, of tasks to cancel; the tasks may belong to any client"""


@travels(SCHEDULER_TO_CLIENT)
class InfoResponse:
    """The answer to an `InfoRequest`, sent after all `WorkerDetails` or `ObjectDetails`."""

    number: U32
    workers: U32
    """the number of connected workers"""
    clusters: U32
    """the number of agents of the connected workers"""
    clients: U32
    """the number of connected clients, including clients inside tasks"""
    waiting_tasks: U32
    """the number of tasks that wait at the scheduler for a worker"""
    refused: Text = ""
    """why the scheduler refused `restart`, `leave` or `cancel`; empty if it refused nothing"""


@travels(SCHEDULER_TO_CLIENT)
class WorkerDetails:
    """One connected worker."""

    number: U32
    name: Text
    cluster: U32
    """the position of the worker's agent among the agents in this answer"""
    tasks: U32
    """the number of the worker's tasks: running, blocked or queued"""
    blocked_tasks: U32
    """how many of the worker's tasks wait for nested tasks"""
    python_version: Text
    package_version: Text
    capabilities: Text


@travels(SCHEDULER_TO_CLIENT)
class ObjectDetails:
    """One object of the requesting client."""

    number: U32
    object: ObjectIdColumn
    name: Text
    kind: U8
    """the kind of the object. 0: a stored value; 1: a function; 2: an argument of one task; 3: a result"""
    place: U8
    """where the bytes of the object are. 0: at the scheduler; 1: at the client; 2: at an agent; 3: lost"""
    size_bytes: U64
    copies: U32
    """the number of agents that have fetched the object"""
    users: U32
    """the number of open tasks that need the object"""


@travels(CLIENT_TO_SCHEDULER)
class OutputRequest:
    """The request for the stored lines of one task, or for all future lines of the tasks of this client."""

    number: U32
    """a number that the client chooses, and the answer repeats"""
    task_id: TaskIdColumn
    """the task whose lines are requested; `NO_ID`: all tasks"""
    report: U8 = 0
    """whether the client requests the latest progress report of the task instead of the lines"""


@travels(SCHEDULER_TO_CLIENT)
class OutputLine:
    """A line that a task of this client has written."""

    number: U32
    """the number of the `OutputRequest` that this line answers"""
    task_id: TaskIdColumn
    stream: StreamColumn
    time_us: U64
    """the time of the line in microseconds since 1970, by the clock of the worker's host"""
    dropped: U32
    """how many lines of the task are missing between the previous line and this line"""
    name: Text
    """the name of the task"""
    worker: Text
    text: Line


@travels(SCHEDULER_TO_CLIENT)
class OutputResponse:
    """The end of the answer to an `OutputRequest` about one task: all stored lines have been sent."""

    number: U32
    """the number of the `OutputRequest` that this response ends"""
    dropped: U32
    """how many lines of the task are missing in all, including those before the first stored line"""


@travels(CLIENT_TO_SCHEDULER)
class JobRequest:
    """A request about a job. A request that is resent in a new session takes effect only once."""

    number: U32
    """a number that the client chooses, and the answer repeats"""
    verb: JobVerbColumn
    name: Text
    """the name of the job"""
    first: U64 = 0
    amount: U32 = 0
    body: Bytes = b""
    record: Bytes = b""
    """the id of the job's record (8 bytes) and, to read results, the job's work (4 bytes); empty: the job now of this
    name
    """
    frames: FrameColumn = ()


@travels(SCHEDULER_TO_CLIENT)
class JobResponse:
    """An answer to a `JobRequest`. Any number of answers with the status `WAITS` may precede the final answer."""

    number: U32
    """the number of the `JobRequest` that this response answers"""
    status: JobStatusColumn
    first: U64 = 0
    """in answer to `READ`: the position from which the next request continues"""
    amount: U32 = 0
    """the number of rows in the answer, if its status is `ROWS`"""
    body: Bytes = b""
    reason: Reason = ""
    frames: FrameColumn = ()
