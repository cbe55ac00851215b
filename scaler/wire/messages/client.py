"""Messages between a client and the scheduler, as in `protocol/client.capnp`."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Annotated

from scaler.ids import NO_ID
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
"""The prefix of the labels of `scaler_scale`'s clients."""


class GoodbyeKind(IntEnum):
    """Why a client leaves."""

    DISCONNECT = 0
    """the client has finished; its open work is cancelled"""
    SHUTDOWN = 1
    """the scheduler and all workers end too"""


class InputKnowledge(IntEnum):
    """The state of an input of a graph, as its client knows it."""

    AWAITED = 0
    """its task is open"""
    HERE = 1
    """its task has ended, as `status` and `payload` report"""
    STORED = 2
    """the value is an object of the scheduler, with the id of the task"""


TOKEN_BYTES = 8
"""Size of the token that identifies a resent call, or a resent request that changes a job."""


class JobVerb(IntEnum):
    """The kinds of requests about a job."""

    OPEN = 0
    """find or create the job with the terms in the body; `amount`: the bits of `JobOpenFlags`; if one is set, `first`
    is the revision that the client has compared
    """
    ROWS = 1
    """store `amount` rows from `first` on; the frames: their digests and their block; the body: the token of the call,
    8 bytes, and the digest of the range
    """
    OBJECT = 2
    """store an object; the body: its id, `amount`: its `InstructionKind`"""
    SEAL = 3
    """complete the rows: the job has `first` rows"""
    READ = 4
    """return the outcomes of the rows from `first` on, at most `amount`, when the first of them has ended. The body
    `a`: this client needs the job to run; `s`: answer at once, with the next ended rows
    """
    READ_NEW = 5
    """return outcomes in the order in which they reached the disk; the body is the id of that order"""
    SHOW = 6
    """return the state of the job; `amount` 1: when it has ended; 2: with the number of ended rows of each version"""
    LIST = 7
    """return the states of all jobs of the owner; `amount` 1, for admins: of all owners"""
    FAILURES = 8
    """return the failed rows from `first` on, at most `amount`, with their arguments"""
    RETRY = 9
    """run failed rows again; the body identifies the request, so that a resent one does nothing"""
    CANCEL = 10
    """cancel the job; results of ended rows are kept"""
    FORGET = 11
    """cancel the job and delete its record; `amount` 1: only if no row has ended and no other program uses it"""
    LEAVE = 12
    """withdraw this client's need of the job"""
    GIVE = 13
    """transfer a job that is not open to the owner in the body; for admins"""
    ATTEND = 14
    """report that this client uses the job, in each new session; `amount` 1: it needs the job to run"""
    DIGESTS = 15
    """return the digests of the rows of the range at `first`, and which of them have ended"""
    REPLACE = 16
    """replace a stored range, as `ROWS`; rows whose digests differ lose their results and run again. `amount`: the
    revision that the client has compared; the body begins with a token of the request
    """
    ARGUMENTS = 17
    """return the arguments of the row `first`, and the facts of its call"""
    TRUNCATE = 18
    """drop the rows from `first` on, and their results; `amount` and body as of `REPLACE`"""
    STORED = 19
    """return the stored function or value with the id in the body"""


AT_END, VERSIONS = 1, 2
"""Values of the `amount` of `SHOW`: answer when the job has ended; add the number of ended rows of each version."""


class JobOpenFlags(IntFlag):
    """Requests of a client that opens a job, as bits of the `amount` of `OPEN`."""

    RUN = 1
    """run the job, which this client needs"""
    RETRY = 2
    """run failed rows again"""
    NEW_VERSION = 4
    """replace the terms of the job by those in the body; ended rows are kept"""
    DROP = 8
    """with a new version: drop all results"""
    IF_NONE_ENDED = 16
    """with a new version: only if no row has ended"""
    SAME_WORK = 32
    """with a new version: the function and the rows are unchanged"""
    SAME_ROWS = 64
    """with a new version: only the function changes; the rows stay complete. `first`: the work that the client knows"""


class JobAnswerKind(IntEnum):
    """The kind of an answer about a job."""

    KNOWN = 0
    """the body is JSON: the state of the job"""
    ROWS = 1
    """the body and the frame are ended rows; if empty, no further row will end in the present state of the job"""
    REFUSED = 2
    """the request is refused for the given reason"""
    NOT_FOUND = 3
    """there is no such job"""
    WAITS = 4
    """a preliminary answer: the reason is what the job waits for; empty if it waits no longer"""
    CONFLICT = 5
    """row `first` differs from the stored one, or the job now has other work; the reason says how"""
    CHANGED = 6
    """the job has another revision than the one that the client has compared: compare again"""


# One byte; the codec refuses a number that the enumeration does not have.
GoodbyeColumn = Annotated[int, "u8", GoodbyeKind]
KnownColumn = Annotated[int, "u8", InputKnowledge]
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
    """random, known only to the client and the scheduler: a client resumes its session with it on a new connection"""
    agent_token: Id = NO_ID
    """of a client inside a task: the token of the agent's hello, which proves where the client runs; the token ends
    with the processor
    """
    processor: U32 = 0
    """of a client inside a task: the number of its processor, which the agent never reuses"""
    resumes: U8 = 0
    """`RESUMING` or `RETURNING`; 0 for a new client"""
    heard: U64 = 0
    """to resume: the highest number received from the scheduler"""
    account: U32 = 0
    """if `resumes` is not 0: the number of its account, which its running tasks give to their nested tasks"""
    dial: U32 = 0
    """the number of the connection, from 1, because a hello may arrive after the next one; 0: not counted"""
    label: Text = ""
    """the program and its place, for people"""
    begun: U32 = 0
    """to resume: the `dial` of the hello that started the session; 0: not counted"""


@travels(CLIENT_TO_SCHEDULER)
class Task:
    """Run a function."""

    task_id: TaskIdColumn
    function_id: ObjectIdColumn
    payload: Bytes
    """the block of arguments"""
    object_ids: IdRow
    """the ids of the objects among the arguments, joined"""
    priority: I32 = 0
    """depth and user's priority, see `scaler.wire.messages.priority`; the greater goes first"""
    name: Text = ""
    """given by the user; empty: the name of its function"""
    options: Options = b""
    """`RunOptions`; empty: all have their defaults"""
    account: U32 = 0
    """of a client inside a task: the account in that task's `RunTask`; otherwise 0, and the scheduler adds it"""
    frames: FrameColumn = ()
    """the arguments that are too large for the block, in order"""
    rows: RowCount = 0
    """the number of calls, see `scaler.wire.messages.rows`; the payload has a block for each; 0: one call"""
    owner: U64 = 0
    """of a client inside a task: the owner in that task's `RunTask`; otherwise 0, and the scheduler adds it"""


@travels(CLIENT_TO_SCHEDULER)
class TaskCancel:
    """Do not run the task, or stop it."""

    task_id: TaskIdColumn
    waiting: U8 = 0
    """1: only if it has not started"""
    rows: RowCount = 0
    """as in the task, which the scheduler may have split"""


@travels(SCHEDULER_TO_CLIENT)
class TaskResult:
    """How a task ended."""

    task_id: TaskIdColumn
    status: StatusColumn
    payload: Bytes
    size: U64
    """0 if the result is in the payload, otherwise the bytes of the object with the task's id, to be requested"""
    profile: ProfileColumn = b""
    """a `PROFILE`, if it was measured"""
    rows: RowCount = 0
    """as in the task: all its rows have ended; if they succeeded, the payload has a block for each"""
    statuses: Bytes = b""
    """if the status is success: the status of each row as a byte; empty: all succeeded"""
    duration_us: U32 = 0
    """of rows of a map: the time of all of them, from which the client chooses the size of ranges; otherwise 0"""


@travels(CLIENT_TO_SCHEDULER)
class GraphTask:
    """A graph, followed by `node_count` nodes. When the graph is sent again, so are all its nodes."""

    graph_id: GraphIdColumn
    node_count: U32
    priority: I32 = 0
    """of all its tasks, as in `Task`"""
    name: Text = ""
    """of all its tasks, as in `Task`"""
    options: Options = b""
    """of all its tasks, as in `Task`"""
    account: U32 = 0
    """of all its tasks, as in `Task`"""
    owner: U64 = 0
    """of all its tasks, as in `Task`"""


@travels(CLIENT_TO_SCHEDULER)
class GraphNode:
    """The next node of a graph: a task that runs when all nodes that it depends on have succeeded."""

    graph_id: GraphIdColumn
    task_id: TaskIdColumn
    function_id: ObjectIdColumn
    payload: Bytes
    """the block of arguments, which names results of other nodes by their positions"""
    object_ids: IdRow
    """as in `Task`"""
    dependencies: PositionRow
    """the positions of the nodes it depends on, each once: UInt32, little-endian, from 0; all lower than its own"""
    wanted: U8
    """whether the client wants the result"""
    frames: FrameColumn = ()
    """as in `Task`"""


@travels(CLIENT_TO_SCHEDULER)
class GraphInput:
    """The next node of a graph, if it is not a call but the result of another task of the client."""

    graph_id: GraphIdColumn
    position: U32
    """the position in its graph"""
    task_id: TaskIdColumn
    source_graph: GraphIdColumn
    """the graph of the task; `NO_ID` if it is in none"""
    source_position: U32 = 0
    known: KnownColumn = InputKnowledge.AWAITED
    payload: Bytes = b""
    status: StatusColumn = 0


@travels(CLIENT_TO_SCHEDULER)
class GraphTaskCancel:
    """Do not run the remaining nodes of the graph, and stop the running ones."""

    graph_id: GraphIdColumn


@travels(CLIENT_TO_SCHEDULER)
class ClientHeartbeat:
    """The client is alive."""

    sent_ns: U64
    """the sender's clock, which the echo repeats"""
    has_unsaid: U8 = 0
    """1: some open work has not been sent, because it waits for the window"""


@travels(SCHEDULER_TO_CLIENT)
class ClientHeartbeatEcho:
    """The scheduler is alive."""

    sent_ns: U64
    value_bytes: U64 = 0
    """the most bytes of one value that the scheduler accepts now; 0: unknown"""


@travels(CLIENT_TO_SCHEDULER)
class ClientResting:
    """The task of this client only waits, and the client sent all its other items before this one."""

    wait: U32
    """the number of the wait, which its agent knows too"""
    heard: U64
    """the highest number received from the scheduler"""


@travels(CLIENT_TO_SCHEDULER)
class ExplainRequest:
    """Report what a task waits for."""

    task_id: TaskIdColumn
    graph_id: GraphIdColumn
    """the graph of the node; `NO_ID` if the task is not a node"""
    position: U32 = 0
    """of a node: its position in the graph"""
    wanted: U8 = 0
    """1: the client waits for the result; if the worker of the task is paused, it starts this task next"""


@travels(SCHEDULER_TO_CLIENT)
class ExplainResponse:
    """Where a task is, and what it waits for."""

    task_id: TaskIdColumn
    state: Text
    """the state as monitors name it; empty if the scheduler does not have the task"""
    waits_for: Text
    """one of the words of `scaler.actors.insight.explanations`"""
    sentence: Reason
    """what the task waits for, as a sentence for people, with advice"""
    worker: Text = ""
    """the worker that has it, or ran it last"""
    tries: U32 = 0
    """the number of the present try, from 1; 0: unknown"""
    past: Reason = ""
    """why the earlier tries ended, for people"""
    state_ms: U64 = 0
    """the least number of milliseconds that it has been in this state; 0: unknown"""


@travels(CLIENT_TO_SCHEDULER)
class ClientDisconnect:
    """The client leaves."""

    kind: GoodbyeColumn


@travels(SCHEDULER_TO_CLIENT)
class ClientShutdownResponse:
    """Whether the scheduler will shut down as requested."""

    accepted: U8
    reason: Reason


WORKERS, OBJECTS = 1, 2
"""The details that an `InfoRequest` can request: each worker, or the objects of its client."""


@travels(CLIENT_TO_SCHEDULER)
class InfoRequest:
    """Report the connected workers and clients. Replaces an earlier request with the same number."""

    number: U32
    detailed: U8 = 0
    """details to report too: `WORKERS`, `OBJECTS`, or 0"""
    workers: U32 = 0
    """answer again whenever workers connect, until this number is connected; 0: answer once"""
    restart: U8 = 0
    """whether all agents replace their worker processes, before the answer"""
    leave: Names = ""
    """names of workers whose agents leave after their running tasks"""
    cancel: Names = ""
    """short ids, in hex, of tasks of any client to cancel"""


@travels(SCHEDULER_TO_CLIENT)
class InfoResponse:
    """The answer to an `InfoRequest`, sent after all `WorkerDetails` or `ObjectDetails`."""

    number: U32
    workers: U32
    """the number of connected workers"""
    clusters: U32
    """the number of their agents"""
    clients: U32
    """the number of connected clients, including those inside tasks"""
    waiting_tasks: U32
    """the number of tasks that wait at the scheduler for a worker"""
    refused: Text = ""
    """why the scheduler refused what the request asks of agents; empty if it did it"""


@travels(SCHEDULER_TO_CLIENT)
class WorkerDetails:
    """One connected worker."""

    number: U32
    name: Text
    cluster: U32
    """the position of its agent in this answer"""
    tasks: U32
    """the number of its tasks: running, blocked or queued"""
    blocked_tasks: U32
    """how many of its tasks wait for nested tasks"""
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
    """0: a stored value; 1: a function; 2: an argument of one task; 3: a result"""
    place: U8
    """where its bytes are; 0: at the scheduler; 1: with its client; 2: with an agent; 3: lost"""
    size_bytes: U64
    copies: U32
    """the number of agents that have fetched it"""
    users: U32
    """the number of open tasks that need it"""


@travels(CLIENT_TO_SCHEDULER)
class OutputRequest:
    """Send the lines that a task has written, or from now on those that all tasks of this client write."""

    number: U32
    """chosen by the client, and repeated in the answer"""
    task_id: TaskIdColumn
    """`NO_ID`: all tasks"""
    report: U8 = 0
    """whether only the latest progress report of the task is requested, which is not among its lines"""


@travels(SCHEDULER_TO_CLIENT)
class OutputLine:
    """A line that a task of this client has written."""

    number: U32
    """the number of the request"""
    task_id: TaskIdColumn
    stream: StreamColumn
    time_us: U64
    """microseconds since 1970, by the clock of the worker's host"""
    dropped: U32
    """the number of lines left out just before this one"""
    name: Text
    """the name of the task"""
    worker: Text
    text: Line


@travels(SCHEDULER_TO_CLIENT)
class OutputResponse:
    """All stored lines of a task have been sent."""

    number: U32
    """the number of the request"""
    dropped: U32
    """the number of lines of the task left out, including those before the first stored one"""


@travels(CLIENT_TO_SCHEDULER)
class JobRequest:
    """A request about a job. If it is resent in a new session, it takes effect only once."""

    number: U32
    """chosen by the client, and repeated in the answer"""
    verb: JobVerbColumn
    name: Text
    """the name of the job"""
    first: U64 = 0
    amount: U32 = 0
    body: Bytes = b""
    record: Bytes = b""
    """the id of the record, 8 bytes; empty: the job that has the name now. In requests for results, the number of the
    work follows, 4 bytes
    """
    frames: FrameColumn = ()


@travels(SCHEDULER_TO_CLIENT)
class JobResponse:
    """An answer to a `JobRequest`: any number with the status `WAITS`, then a final one."""

    number: U32
    """the number of the request"""
    status: JobStatusColumn
    first: U64 = 0
    """with rows: the first one; for `READ_NEW`, and for a `READ` of rows in the order in which they end: where to
    continue
    """
    amount: U32 = 0
    """with rows: their number"""
    body: Bytes = b""
    reason: Reason = ""
    frames: FrameColumn = ()
