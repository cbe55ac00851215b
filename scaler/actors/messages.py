"""What the actors of the scheduler tell each other. Batches of the wire (`scaler.wire.messages`) are handled too,
unchanged.

Commands are imperative, facts in the past tense; each says who sends it to whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.actors.events import Departure
from scaler.actors.kit import ActorRef
from scaler.ids import ClientId, Connection, GraphId, ObjectId, TaskId
from scaler.message import message
from scaler.process.report import Report
from scaler.serialization import Frames
from scaler.wire.messages.client import ClientHello, Task, TaskResult
from scaler.wire.messages.worker import WorkerHello

# A task finds its worker


@message
class TaskReady:
    """task -> balancer: I can run. `again`: a worker had me and could not finish me, or I continue a graph: I go first.
    `near`: the worker on whose host much of what I need is. `account`: on whose share I run.
    `is_new`: I have never been let in, and may be refused.
    """

    task: ActorRef
    spec: Task
    attempt: int
    again: bool
    near: ActorRef | None = None
    account: int = 0
    is_new: bool = False


@message
class WithdrawTask:
    """task -> balancer: I do not want to run any more."""

    task: ActorRef
    priority: int
    account: int = 0


@message
class TaskWithdrawn:
    """balancer -> task: you are not waiting here any more."""


@message
class TaskNotWaiting:
    """balancer -> task: you asked to be withdrawn, and do not wait here: you were assigned before, or forgotten."""


@message
class TaskRefused:
    """balancer -> task: you will not wait here, nor run."""

    attempt: int
    sentence: str


@message
class AssignTask:
    """balancer -> worker proxy: have this task run; give back so much work when it has ended."""

    task: ActorRef
    spec: Task
    attempt: int
    expected_us: int
    account: int = 0


@message
class TaskAssigned:
    """worker proxy -> task: your attempt is on its way to my worker."""

    worker: ActorRef
    attempt: int


@message
class CancelRun:
    """task -> worker proxy: stop this attempt."""

    task_id: TaskId
    attempt: int


@message
class RunLost:
    """worker proxy -> task: my worker is gone, and this attempt with it."""

    attempt: int
    worker_name: str
    was_running: bool


@message
class RunRecalled:
    """worker proxy -> task: my worker gave this attempt back before it started."""

    attempt: int


@message
class CancelTask:
    """client session or graph -> task: never run, or stop."""


@message
class TaskDone:
    """task -> client session or graph: this is my end. `worker`: who has sent the result."""

    result: TaskResult
    frames: Frames
    worker: ActorRef | None = None


# Graphs


@message
class CancelGraph:
    """client session -> graph: start nothing more, and stop what runs."""


@message
class GraphNodeDone:
    """graph -> client session: a node that your client wants has ended."""

    result: TaskResult
    frames: Frames


@message
class KeepResult:
    """graph -> worker proxy: other nodes need this large result of yours, have your host keep it."""

    object_id: ObjectId


@message
class GraphEnded:
    """graph -> client session: all my nodes have ended, and so do I. A graph that came after me may have my id."""

    graph_id: GraphId
    graph: ActorRef


# The balancer and its workers


@message
class PlaceReadyTasks:
    """balancer -> itself: all mail of this turn is in, now place."""


@message
class WorkerJoined:
    """worker proxy -> balancer: I take tasks, at most so many at a time, and have so many, of so much work. `host`: the
    session of my agent, the same for all workers beside me.
    """

    worker: ActorRef
    queue_size: int
    tasks: int
    expected_us: int
    host: ActorRef


@message
class WorkerLeft:
    """worker proxy -> balancer: I take none any more. Answered, since an assignment may be on its way to me."""

    worker: ActorRef


@message
class WorkerForgotten:
    """balancer -> worker proxy: no assignment of mine comes after this."""


@message
class WorkerFailed:
    """worker proxy -> balancer: I am dead, and what you assigned to me last may be lost."""

    worker: ActorRef


@message
class PlacesFreed:
    """worker proxy -> balancer: so many of my tasks ended, of so much work as you counted. `measured`: how long those
    took that ran to their end, by function: total of microseconds, and number.
    """

    worker: ActorRef
    count: int
    expected_us: int
    measured: dict[ObjectId, tuple[int, int]]


@message
class LookAtBalance:
    """balancer -> itself, by timer: ask the policy again, for time has passed."""


@message
class RecallTasks:
    """balancer -> worker proxy: have so many tasks given back, as far as they have not started."""

    count: int


@message
class TasksRecalled:
    """worker proxy -> balancer: so many of my tasks were given back, of so much work as you counted, and of these
    functions.
    """

    worker: ActorRef
    count: int
    expected_us: int
    function_ids: set[ObjectId]


@message
class PlacesTaken:
    """worker proxy -> balancer: so many of my tasks that were freed because they waited go on, of so much work."""

    worker: ActorRef
    count: int
    expected_us: int


@message
class BalancerRestarted:
    """balancer -> acceptor -> sessions -> tasks and worker proxies: tell me again what waits and who is free."""


# Objects


@message
class StoreObject:
    """client session or graph -> object store: keep this. `held` by its client until deleted, else as long as tasks use
    it; what a graph stores has no owner. `is_function`: its id says what it is, so it may come again, and hosts keep
    their copies for a while.
    """

    object_id: ObjectId
    owner: ClientId | None
    name: str
    frames: Frames
    held: bool
    is_function: bool = False
    location: bytes = b""
    """where the client keeps the bytes, if there are no frames"""
    source: ActorRef | None = None
    """who asks the client for them"""


@message
class SupplyObject:
    """object store -> client session: somebody needs the bytes of an object of which only the location is here."""

    object_id: ObjectId


@message
class DeleteObject:
    """client session -> object store: this client needs it no more."""

    object_id: ObjectId
    owner: ClientId


@message
class UseObjects:
    """task or graph -> object store: I need these until I say otherwise."""

    object_ids: bytes


@message
class ReleaseObjects:
    """task or graph -> object store: I need these no more."""

    object_ids: bytes


@message
class FetchObject:
    """session -> object store: send this to my peer. `host`: the session of an agent, which keeps the copy until it is
    told to delete it.
    """

    object_id: ObjectId
    connection: Connection
    host: ActorRef | None
    by_value: bool = False
    """the bytes and not their location"""


@message
class CopyKept:
    """agent session -> object store: my agent has a copy of this; it is back on a new connection."""

    object_id: ObjectId
    host: ActorRef


@message
class DeleteCopy:
    """object store -> agent session: this is not needed any more, have your agent delete its copy."""

    object_id: ObjectId


@message
class HostLeft:
    """agent session -> object store: my agent is gone, and its copies are not mine any more."""

    host: ActorRef


@message
class RetentionEnded:
    """object store -> itself, by timer: copies may have been kept for long enough."""


@message
class OwnerLeft:
    """client session -> object store: forget what this client owns."""

    owner: ClientId


# Peers come and go


@message
class ClientArrived:
    """edge -> acceptor: a client said hello."""

    connection: Connection
    hello: ClientHello


@message
class AgentArrived:
    """edge -> acceptor: an agent said hello."""

    connection: Connection
    hello: WorkerHello


@message
class Resumed:
    """acceptor -> session: your peer has a new connection; `held` is what an agent still has."""

    connection: Connection
    held: bytes


@message
class NestedArrived:
    """acceptor -> agent session: this is the session of a client inside one of your processors."""

    processor: int
    session: ActorRef


@message
class NestedIn:
    """acceptor -> nested session: your client is inside this processor of this agent."""

    agent: ActorRef
    processor: int


@message
class NewsSaid:
    """outbox -> session: something is on its way to your peer."""


@message
class EndNested:
    """agent session -> nested session: the processor of your client has ended, or nobody can tell any more."""


@message
class ConnectionLost:
    """edge -> session: this connection is gone, or its peer talks garbage. The peer may come back on another one."""

    connection: Connection
    reason: str
    unsent: Sequence[Any] = ()
    """items that were for it and have certainly not left"""


@message
class CheckSilence:
    """session -> itself, by timer: is the peer still there? If not, this is how it went."""

    departure: Departure


@message
class SessionEnded:
    """session -> acceptor: my peer is gone for good."""

    session: ActorRef


@message
class ShutdownAsked:
    """client session -> acceptor: my client wants everything to end."""

    connection: Connection


@message
class StopWorker:
    """agent session -> worker proxy: your agent is gone. `was_lost`: by nobody's will, so what ran is suspect."""

    was_lost: bool


@message
class SayStatistics:
    """tree -> its parts -> sessions -> graphs and worker proxies, in the urgent lane: add your counts to the report."""

    report: Report


@message
class StopAgent:
    """acceptor -> agent session: send your agent away, the scheduler shuts down."""

    reason: str
