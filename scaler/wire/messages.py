"""Every message that crosses a process boundary, by direction: this page is the protocol.

An item is one thing (`Task`); on the wire, items for one peer travel as columns of one message, and arrive as one batch
(`Tasks`). The annotations name the columns' types; `protocol/*.capnp` describes the same structs for other languages,
and a test compares the two field by field.

    client --> scheduler --> client         CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
    agent --> scheduler --> agent           AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
    processor --> agent --> processor       PROCESSOR_TO_AGENT, AGENT_TO_PROCESSOR
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, ClassVar, TypeVar

from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.message import message
from scaler.serialization import Frames

PROTOCOL_VERSION = 1
"""Raised by every change that an older peer cannot read."""

U8 = Annotated[int, "u8"]
U16 = Annotated[int, "u16"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
Id = Annotated[bytes, "id"]
TaskIdColumn = Annotated[TaskId, "id"]
GraphIdColumn = Annotated[GraphId, "id"]
ObjectIdColumn = Annotated[ObjectId, "id"]
Bytes = Annotated[bytes, "bytes"]
Text = Annotated[str, "text"]
FrameColumn = Annotated[Frames, "frames"]

HELD_RUN = struct.Struct("<16sIH")
"""A task that an agent still has: its id, the attempt and the worker."""

PROFILE = struct.Struct("<QQQ")
"""What a task took: its wall time and its processor time in microseconds, and its peak memory in bytes."""

T = TypeVar("T")


class Batch(list[T]):
    """Items of one type that arrived together."""

    item: ClassVar[type]

    def __init_subclass__(cls, item: type, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.item = item


class TaskStatus(IntEnum):
    """How a task ended."""

    SUCCESS = 0
    """the payload, or the frames, are its result"""
    FAILED = 1
    """it raised; the payload is a `TaskFailure`"""
    CANCELED = 2
    """somebody asked for that"""
    PROCESSOR_DIED = 3
    """the process that ran it ended; the payload says how"""
    WORKER_DIED = 4
    """the worker that ran it was lost too often; the payload says which"""
    NO_WORKER = 5
    """refused: nobody has a place for it"""
    NOT_FOUND = 6
    """the receiver knows no such task"""
    MISSING_OBJECTS = 7
    """an object that it needs is not stored any more; the payload says which"""
    INTERNAL_ERROR = 8
    """the scheduler failed at it; the payload says how"""
    TIMED_OUT = 9
    """it took longer than its worker allows; the first line of the payload says so, the others where it was"""


class InstructionKind(IntEnum):
    """What to do with an object."""

    CREATE = 0
    """store it until its client deletes it or leaves"""
    CREATE_FOR_TASK = 1
    """store it until the task that names it has ended"""
    DELETE = 2
    """forget it"""
    CREATE_FUNCTION = 3
    """as `CREATE`; its id is the hash of its content, so that it may be sent again, by anybody"""
    KEEP_RESULT = 4
    """only to agents: keep the large result of the task with this id, if you still have it; other tasks need it"""


class GoodbyeKind(IntEnum):
    """Why a client leaves."""

    DISCONNECT = 0
    """it has finished; what it left open is cancelled"""
    SHUTDOWN = 1
    """the scheduler and all workers shall end too"""


# One byte each; the codec refuses a number that the enumeration does not have.
StatusColumn = Annotated[int, "u8", TaskStatus]
InstructionColumn = Annotated[int, "u8", InstructionKind]
GoodbyeColumn = Annotated[int, "u8", GoodbyeKind]


# Said by everybody.


@message
class HelloReply:
    """The scheduler's answer to a hello."""

    accepted: U8
    reason: Text
    """why not, as a sentence that names both sides; empty when accepted"""
    scheduler_id: Id
    protocol_version: U16
    package_version: Text


class HelloReplies(Batch[HelloReply], item=HelloReply):
    pass


@message
class HelloRequest:
    """The scheduler does not know this connection: say hello on a new one."""

    reason: Text


class HelloRequests(Batch[HelloRequest], item=HelloRequest):
    pass


@message
class ObjectRequest:
    """Send me this object."""

    object_id: ObjectIdColumn
    by_value: U8 = 0
    """1: its bytes, not where they are; that was no use"""


class ObjectRequests(Batch[ObjectRequest], item=ObjectRequest):
    pass


@message
class ObjectResponse:
    """Here it is, or it is not stored."""

    object_id: ObjectIdColumn
    found: U8
    frames: FrameColumn
    location: Bytes = b""
    """where its memory is, instead of the frames: a `SharedBlock` of its client"""


class ObjectResponses(Batch[ObjectResponse], item=ObjectResponse):
    pass


@message
class ObjectInstruction:
    """Create or delete a stored object."""

    kind: InstructionColumn
    object_id: ObjectIdColumn
    name: Text
    frames: FrameColumn
    location: Bytes = b""
    """where its memory is, instead of the frames: the client sends those only when it is asked"""


class ObjectInstructions(Batch[ObjectInstruction], item=ObjectInstruction):
    pass


@message
class ObjectKept:
    """An agent that is back on a new connection still has a copy of this object."""

    object_id: ObjectIdColumn


class ObjectsKept(Batch[ObjectKept], item=ObjectKept):
    pass


# Between client and scheduler.


@message
class ClientHello:
    """The first message of a client on every connection."""

    protocol_version: U16
    package_version: Text
    python_version: Text
    cloudpickle_version: Text
    client_id: Id
    """random, known to the client and the scheduler only: with it a client takes up its session on a new connection"""
    nest_id: Id = NO_ID
    """of a client inside a task: that of the agent's hello, as a proof of where it is; it ends with its processor"""
    processor: U32 = 0
    """of a client inside a task: its processor's number, never used again by the agent"""


class ClientHellos(Batch[ClientHello], item=ClientHello):
    pass


@message
class Task:
    """Run a function."""

    task_id: TaskIdColumn
    function_id: ObjectIdColumn
    payload: Bytes
    """the block of arguments"""
    object_ids: Bytes
    """the ids of the objects among the arguments, one after the other"""
    priority: U32 = 0
    """how deep the task is nested; deeper ones go first, so that the tasks that wait for them end soon"""
    name: Text = ""
    """what the user calls it; empty: it has the name of its function"""
    profiling: U8 = 0
    """whether to measure what it takes"""


class Tasks(Batch[Task], item=Task):
    pass


@message
class TaskCancel:
    """Never run the task, or stop it."""

    task_id: TaskIdColumn


class TaskCancels(Batch[TaskCancel], item=TaskCancel):
    pass


@message
class TaskResult:
    """How a task ended."""

    task_id: TaskIdColumn
    status: StatusColumn
    payload: Bytes
    size: U64
    """0 if the result is in the payload, else the bytes of the object with the task's id, to be requested"""
    profile: Bytes = b""
    """a `PROFILE`, if it was measured"""


class TaskResults(Batch[TaskResult], item=TaskResult):
    pass


@message
class GraphTask:
    """A graph: so many nodes of it follow. Said again, it means that they follow once more, from the first."""

    graph_id: GraphIdColumn
    node_count: U32
    priority: U32 = 0
    """of all its tasks, as in `Task`"""
    profiling: U8 = 0
    """of all its tasks, as in `Task`"""


class GraphTasks(Batch[GraphTask], item=GraphTask):
    pass


@message
class GraphNode:
    """The next node of a graph: a task that runs when those before it that it depends on have ended well."""

    graph_id: GraphIdColumn
    task_id: TaskIdColumn
    function_id: ObjectIdColumn
    payload: Bytes
    """the block of arguments; the results of other nodes are in it by their positions"""
    object_ids: Bytes
    """as in `Task`"""
    dependencies: Bytes
    """the positions of the nodes it depends on, each once: UInt32, little-endian, counted from 0; all before its own"""
    wanted: U8
    """whether the client wants the result"""


class GraphNodes(Batch[GraphNode], item=GraphNode):
    pass


@message
class GraphTaskCancel:
    """Never run what is left of the graph, and stop what runs."""

    graph_id: GraphIdColumn


class GraphTaskCancels(Batch[GraphTaskCancel], item=GraphTaskCancel):
    pass


@message
class ClientHeartbeat:
    """I am here."""

    sent_ns: U64
    """the sender's own clock, echoed"""


class ClientHeartbeats(Batch[ClientHeartbeat], item=ClientHeartbeat):
    pass


@message
class ClientHeartbeatEcho:
    """So am I."""

    sent_ns: U64


class ClientHeartbeatEchos(Batch[ClientHeartbeatEcho], item=ClientHeartbeatEcho):
    pass


@message
class ClientResting:
    """The task that this client is in does nothing but wait, and all that the client had to say it has said before."""

    wait: U32
    """the number of the wait, which its agent knows too"""
    heard: U64
    """how many items it has had on this connection"""


class ClientsResting(Batch[ClientResting], item=ClientResting):
    pass


@message
class ClientDisconnect:
    """A client leaves."""

    kind: GoodbyeColumn


class ClientDisconnects(Batch[ClientDisconnect], item=ClientDisconnect):
    pass


@message
class ClientShutdownResponse:
    """Whether the scheduler will shut down as asked."""

    accepted: U8
    reason: Text


class ClientShutdownResponses(Batch[ClientShutdownResponse], item=ClientShutdownResponse):
    pass


# Between agent and scheduler.


@message
class WorkerHello:
    """The first message of a cluster's agent on every connection."""

    protocol_version: U16
    package_version: Text
    python_version: Text
    cloudpickle_version: Text
    node_id: Id
    """random, known to the agent and the scheduler only: with it an agent takes up its workers on a new connection"""
    worker_names: Text
    """one per worker slot, separated by commas; a worker is addressed by its position in this list"""
    held: Bytes
    """the tasks that the agent still has, unacknowledged results included: `HELD_RUN` records, one after the other"""
    nest_id: Id = NO_ID
    """random, known to the agent, its processors and the scheduler: the clients inside its tasks show it"""


class WorkerHellos(Batch[WorkerHello], item=WorkerHello):
    pass


@message
class RunTask:
    """Run a task on one of the agent's workers."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    """rises with every assignment of the task; news of an older attempt is ignored"""
    function_id: ObjectIdColumn
    payload: Bytes
    object_ids: Bytes
    priority: U32 = 0
    """as in `Task`"""
    name: Text = ""
    """as in `Task`"""
    profiling: U8 = 0
    """as in `Task`"""


class RunTasks(Batch[RunTask], item=RunTask):
    pass


@message
class RunCancel:
    """Drop the task from the worker's queue, or stop it; its result says what became of it."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


class RunCancels(Batch[RunCancel], item=RunCancel):
    pass


@message
class BalanceRequest:
    """Others are idle: give the task back, unless its processor has it. Whatever is not given back stays."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


class BalanceRequests(Batch[BalanceRequest], item=BalanceRequest):
    pass


@message
class BalanceResponse:
    """The task did not start here, and is the scheduler's again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


class BalanceResponses(Batch[BalanceResponse], item=BalanceResponse):
    pass


@message
class RunResult:
    """How one run of a task ended. The agent keeps it until the scheduler says that it was received."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    status: StatusColumn
    payload: Bytes
    duration_us: U32
    """wall time of the call, capped at the largest value"""
    frames: FrameColumn
    """the result, if it is too large for the payload"""
    profile: Bytes = b""
    """a `PROFILE`, if it was measured"""


class RunResults(Batch[RunResult], item=RunResult):
    pass


@message
class RunSuspended:
    """The task waits for others and gives up its place. Said again on a new connection, while it waits."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


class RunsSuspended(Batch[RunSuspended], item=RunSuspended):
    pass


@message
class RunResumed:
    """The task does not wait any more and takes its place again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


class RunsResumed(Batch[RunResumed], item=RunResumed):
    pass


@message
class ResultsReceived:
    """The scheduler has so many results of this connection; the agent may forget them."""

    total: U64


class ResultsReceivedBatch(Batch[ResultsReceived], item=ResultsReceived):
    pass


@message
class WorkerHeartbeat:
    """I am here."""

    sent_ns: U64


class WorkerHeartbeats(Batch[WorkerHeartbeat], item=WorkerHeartbeat):
    pass


@message
class WorkerHeartbeatEcho:
    """So am I."""

    sent_ns: U64


class WorkerHeartbeatEchos(Batch[WorkerHeartbeatEcho], item=WorkerHeartbeatEcho):
    pass


@message
class ProcessorGone:
    """A processor has ended, and the clients in it with it. Said again on each new connection, for the latest ones."""

    processor: U32


class ProcessorsGone(Batch[ProcessorGone], item=ProcessorGone):
    pass


@message
class ProcessorNews:
    """Whether there is anything on the way to a client inside a processor that only waits."""

    processor: U32
    wait: U32
    """as in `ClientResting`"""
    has_news: U8
    """1: something was said to it; 0: nothing, and all that it has said has arrived: it may be stopped"""


class ProcessorsNews(Batch[ProcessorNews], item=ProcessorNews):
    pass


@message
class DisconnectRequest:
    """The agent leaves: take back what it has not finished."""

    reason: Text


class DisconnectRequests(Batch[DisconnectRequest], item=DisconnectRequest):
    pass


@message
class DisconnectResponse:
    """The agent is free to go; or, unasked, is told to."""

    reason: Text


class DisconnectResponses(Batch[DisconnectResponse], item=DisconnectResponse):
    pass


# Between agent and processor: `RunTask`, `RunResult`, `ObjectResponse` and `ObjectInstruction`, and these.


@message
class CollectGarbage:
    """Between two tasks: collect what refers to itself only, and give back to the system what is not used."""

    trim_above_bytes: U64
    """a processor with no more memory than this keeps it"""


class CollectGarbageBatch(Batch[CollectGarbage], item=CollectGarbage):
    pass


@message
class ProcessorReady:
    """The processor has started and waits for work."""

    pid: U32


class ProcessorsReady(Batch[ProcessorReady], item=ProcessorReady):
    pass


@message
class TaskSuspended:
    """The task waits for others: the agent may run other tasks in its place."""

    number: U32
    """of the task, counted from 1 in the order in which they were handed to this processor"""
    is_stuck: U8
    """1: it does not go on before it is told to; 0: some other thread of it waits, and it may go on as it likes"""
    wait: U32 = 0
    """the number of the wait, as in `ClientResting`; 0: the process must not be stopped"""
    timeout_ms: U32 = 0
    """after so long the wait ends in any case; 0: it does not"""


class TasksSuspended(Batch[TaskSuspended], item=TaskSuspended):
    pass


@message
class ResumeRequest:
    """What the task waited for is there: it asks to go on, and waits for `ResumeTask`."""

    number: U32


class ResumeRequests(Batch[ResumeRequest], item=ResumeRequest):
    pass


@message
class TaskResumed:
    """No thread of the task waits any more; it did not ask."""

    number: U32


class TasksResumed(Batch[TaskResumed], item=TaskResumed):
    pass


@message
class ResumeTask:
    """The task may go on."""

    number: U32


class ResumeTasks(Batch[ResumeTask], item=ResumeTask):
    pass


@message
class EndProcessor:
    """The processor is not needed any more and ends; unless clients in it have open tasks, then it is ready again."""

    reason: Text


class EndProcessors(Batch[EndProcessor], item=EndProcessor):
    pass


@dataclass(frozen=True)
class Direction:
    """The messages that may travel one way, and the schema's name for the union of them."""

    name: str
    schema: str
    number: int
    """written into every message, so that a message is never read as one of another direction"""
    batches: Sequence[type[Batch[Any]]]


CLIENT_TO_SCHEDULER = Direction(
    "ClientToScheduler",
    "client",
    1,
    (
        ClientHellos,
        Tasks,
        TaskCancels,
        ObjectInstructions,
        ObjectRequests,
        ClientHeartbeats,
        ClientDisconnects,
        GraphTasks,
        GraphNodes,
        GraphTaskCancels,
        ClientsResting,
    ),
)
SCHEDULER_TO_CLIENT = Direction(
    "SchedulerToClient",
    "client",
    2,
    (
        HelloReplies,
        HelloRequests,
        TaskResults,
        ObjectResponses,
        ClientHeartbeatEchos,
        ClientShutdownResponses,
        ObjectRequests,
    ),
)
AGENT_TO_SCHEDULER = Direction(
    "AgentToScheduler",
    "worker",
    3,
    (
        WorkerHellos,
        RunResults,
        ObjectRequests,
        WorkerHeartbeats,
        DisconnectRequests,
        ObjectsKept,
        ProcessorsGone,
        BalanceResponses,
        RunsSuspended,
        RunsResumed,
    ),
)
SCHEDULER_TO_AGENT = Direction(
    "SchedulerToAgent",
    "worker",
    4,
    (
        HelloReplies,
        HelloRequests,
        RunTasks,
        RunCancels,
        ObjectResponses,
        ObjectInstructions,
        ResultsReceivedBatch,
        WorkerHeartbeatEchos,
        DisconnectResponses,
        BalanceRequests,
        ProcessorsNews,
    ),
)
AGENT_TO_PROCESSOR = Direction(
    "AgentToProcessor",
    "processor",
    5,
    (RunTasks, ObjectResponses, ObjectInstructions, CollectGarbageBatch, ResumeTasks, EndProcessors),
)
PROCESSOR_TO_AGENT = Direction(
    "ProcessorToAgent", "processor", 6, (ProcessorsReady, RunResults, TasksSuspended, ResumeRequests, TasksResumed)
)
DIRECTIONS = (
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_CLIENT,
    AGENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    AGENT_TO_PROCESSOR,
    PROCESSOR_TO_AGENT,
)
