"""Messages of tasks, graphs, the balancer and its workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scaler.actors.policy.needs import NO_OFFER, Needs, Offer
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.message import message
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import GraphInput, Task, TaskResult

# Tasks and their workers


@message
class TaskReady:
    """task -> balancer: the task can run.

    `goes_first`: ahead of new tasks, as a retry or the next node of a running graph. `near_worker`: a worker on the
    host of most of its data. `account`: whose share it uses. `is_new`: it may be refused. `context`: to split a range
    where it runs, and to request the start of a held task. `needs`: the resources that it asks for.
    """

    task: ActorRef
    spec: Task
    attempt: int
    goes_first: bool
    near_worker: ActorRef | None = None
    account: int = 0
    is_new: bool = False
    context: Any = None
    needs: Needs | None = None


@message
class WithdrawTask:
    """task -> balancer: remove the task from the queue."""

    task: ActorRef
    priority: int
    account: int = 0


@message
class TaskWithdrawn:
    """balancer -> task: the task is no longer in the queue."""


@message
class TaskNotWaiting:
    """balancer -> task: a task to withdraw is not in the queue: it was assigned before, or forgotten."""


@message
class TaskRefused:
    """balancer -> task: the task is refused, and will not run."""

    attempt: int
    sentence: str


@message
class AssignTasks:
    """balancer -> worker proxy: run these tasks. When a task ends, report its expected work with `LoadFreed`."""

    tasks: list[tuple[TaskReady, int]]
    """each with its expected work in microseconds"""


@message
class TaskAssigned:
    """worker proxy -> task: your attempt was sent to this worker. One message for all tasks of an `AssignTasks`."""

    worker: ActorRef
    attempts: Mapping[ActorRef, int]
    """by task"""


@message
class StartRequested:
    """worker proxy -> job: a worker has a place for this attempt at an at-most-once row, which is held until its start
    is on disk.
    """

    worker: ActorRef
    task_id: TaskId
    attempt: int


@message
class StartRun:
    """job -> worker proxy: the start is recorded; start this attempt."""

    task_id: TaskId
    attempt: int


@message
class RunNotStarted:
    """task -> job: an attempt that was held, or sent to a worker, was returned without a start."""

    task_id: TaskId


@message
class CancelRun:
    """task -> worker proxy: stop this attempt."""

    task_id: TaskId
    attempt: int


@message
class RecallRun:
    """task -> worker proxy: recall this attempt, unless it has started."""

    task_id: TaskId
    attempt: int


@message
class RunLost:
    """worker proxy -> task: the worker and this attempt are lost. `was_ordered`: its agent may have received the
    attempt. `was_unacknowledged`: without acknowledging it.
    """

    attempt: int
    worker_name: str
    was_running: bool
    was_ordered: bool = True
    was_unacknowledged: bool = False


@message
class RunRecalled:
    """worker proxy -> task: the worker returned this attempt before it started."""

    attempt: int


@message
class RangeTooLong:
    """balancer -> task: the range is too long for a turn; have each of its rows report ready as a task of its own."""

    attempt: int


@message
class TaskSplit:
    """worker proxy or the task itself -> task: the attempt was split into one task for each row, and this task ends."""

    attempt: int
    rows: Sequence[ActorRef]


@message
class CancelTask:
    """client session or graph -> task: do not start, or stop the run. `waiting`: only if the task has not started."""

    waiting: bool = False


@message
class RetryDue:
    """task -> itself, by timer: the pause before a retry has ended."""


@message
class TaskDone:
    """task -> client session or graph: the task has ended. `worker`: the sender of the result. A client session
    receives only the `TaskResult` if there are no frames.
    """

    result: TaskResult
    frames: Frames
    worker: ActorRef | None = None
    function_id: ObjectId = ObjectId(NO_ID)
    """the function of a large result"""


# Explanations


class PastTry(NamedTuple):
    """A try that has ended."""

    number: int
    at: float
    """the time of its end, by the clock of the scheduler"""
    event: str
    sentence: str


class Tries(NamedTuple):
    """The number of the present try of a task, from 1; 0: unknown."""

    number: int
    past: tuple[PastTry, ...] = ()
    """the last tries before it"""

    def after(self, event: str, sentence: str, now: float) -> Tries:
        """Return the next try, after the present one has ended."""
        ended = PastTry(self.number, now, event, sentence[:PAST_CHARACTERS_MOST])
        return Tries(self.number + 1, (*self.past, ended)[-PAST_TRIES_MOST:])

    def shown(self, now: float) -> str:
        """Return how the last tries ended, and how long ago, for display."""
        return "; ".join(
            f"try {number} {event} {age(now - at)} ago: {sentence}" for number, at, event, sentence in self.past
        )


def age(seconds: float) -> str:
    """Return a time as text, for display."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


PAST_TRIES_MOST = 5
PAST_CHARACTERS_MOST = 160
"""Limit of the text of each past try: all of them are one sentence of a message."""
NOT_KNOWN, FIRST_TRY = Tries(0), Tries(1)


@message
class ExplainTask:
    """client session or graph -> task: explain the state of the task, with an `ExplainResponse` about `task_id` to
    `asker`. `because`: the start of the answer, if `task_id` has waited for this task, for `seconds`. `hops`: how many
    graphs have forwarded it. `asked_at`: by the clock of the scheduler. `is_wanted`: the client waits for the result,
    so a paused worker starts this task next.
    """

    asker: ActorRef
    task_id: TaskId
    because: str = ""
    seconds: float = 0.0
    hops: int = 0
    asked_at: float = 0.0
    is_wanted: bool = False


@message
class ExplainForAdmin:
    """client session of an admin -> the other sessions in turn: answer for a task of your client, or forward this to
    the next of `others`.
    """

    question: ExplainTask
    others: Iterator[ActorRef]


@message
class CancelForAdmin:
    """census -> all client sessions -> their graphs: cancel tasks for an admin, by the short ids of monitors."""

    short_ids: frozenset[bytes]
    admin: str
    """the name of the admin"""


@message
class ExplainNode:
    """client session -> graph: explain what this node waits for."""

    question: ExplainTask
    position: int


@message
class ExplainInput:
    """graph -> client session: a node waits for this task of the client; forward the question to the task."""

    question: ExplainTask
    input: GraphInput


@message
class ExplainWaiting:
    """task -> balancer: explain why the task waits in the queue, for at least `seconds`, with its tries."""

    question: ExplainTask
    task: ActorRef
    priority: int
    account: int
    needs: Needs | None
    tries: Tries
    seconds: float


@message
class ExplainRun:
    """task -> worker proxy: explain where the run of this task is."""

    question: ExplainTask
    task_id: TaskId
    tries: Tries


@message
class AnswerOverdue:
    """worker proxy -> itself, by timer: answer without the agent, unless it has reported where this run is."""

    asked: ExplainRun


# Graphs


@message
class CancelGraph:
    """client session -> graph: start no further nodes, and stop the running ones."""


@message
class GraphNodeDone:
    """graph -> client session: a requested node has ended. `worker`: the one that made the result, if the node has just
    ended.
    """

    graph_id: GraphId
    result: TaskResult
    frames: Frames
    worker: ActorRef | None = None
    function_id: ObjectId = ObjectId(NO_ID)


@message
class AwaitResult:
    """graph -> client session -> the graph of the task, if it is a node: report how this task of the client ends."""

    input: GraphInput
    graph: ActorRef


@message
class InputKnown:
    """graph -> client session: a node that other nodes wait for ended earlier, and the client knows its result."""

    source: GraphId
    done: TaskDone


@message
class KeepResult:
    """graph -> worker proxy: have the host keep this large result, because other nodes need it."""

    object_id: ObjectId


@message
class GraphEnded:
    """graph -> client session: all nodes have ended, and so has the graph. A later graph may have its id. `lost`: why
    nodes without a reported outcome must be resubmitted.
    """

    graph_id: GraphId
    graph: ActorRef
    lost: str = ""


# The balancer and its workers


@message
class WorkerJoined:
    """worker proxy -> balancer: the worker takes up to `queue_size` tasks at a time; it has `tasks`, of `expected_us`
    of work. `host`: the session of its agent. `offer`: the resources of its node. `taken`: how many of its tasks use
    which of them. `is_unsure`: it has runs whose resources are unknown. `name`: for tasks that only this worker may
    run.
    """

    worker: ActorRef
    queue_size: int
    tasks: int
    expected_us: int
    host: ActorRef
    offer: Offer = NO_OFFER
    taken: tuple[tuple[Needs, int], ...] = ()
    is_unsure: bool = False
    name: str = ""


@message
class WorkerLeft:
    """worker proxy -> balancer: the worker no longer takes tasks. The balancer confirms it with `WorkerForgotten`,
    because an assignment may be on its way.
    """

    worker: ActorRef


@message
class WorkerForgotten:
    """balancer -> worker proxy: no further assignment follows."""


@message
class WorkersPausedAt:
    """agent session -> balancer: `held` workers of this agent are paused for lack of result memory."""

    host: ActorRef
    held: int


@message
class WorkerFailed:
    """worker proxy -> balancer: the proxy failed, and recent assignments to it may be lost."""

    worker: ActorRef


@message
class LoadFreed:
    """worker proxy -> balancer: `count` tasks of the worker ended, of the expected work that the balancer had counted.
    `measured`: the run times of finished tasks by function: total microseconds, and number of tasks.
    """

    worker: ActorRef
    count: int
    expected_us: int
    measured: dict[ObjectId, tuple[int, int]]


@message
class AmountsChanged:
    """worker proxy -> balancer: the number of tasks that use these resources has changed, other than by assignments."""

    worker: ActorRef
    changes: tuple[tuple[Needs, int], ...]
    is_unsure: bool = False


@message
class ReportsRequested:
    """balancer -> itself, after it has requested all reports again: reports ahead of this message are outdated."""

    attempt: int


@message
class CheckBalance:
    """balancer -> itself, by timer: ask the policy again, because time has passed."""


@message
class RecallTasks:
    """balancer -> worker proxy: recall `count` tasks, as far as they have not started."""

    count: int


@message
class TasksRecalled:
    """worker proxy -> balancer: `count` tasks of these functions were returned; `expected_us` is subtracted, as it was
    counted.
    """

    worker: ActorRef
    count: int
    expected_us: int
    function_ids: set[ObjectId]


@message
class LoadResumed:
    """worker proxy -> balancer: `count` tasks, freed when they blocked, resume, with this expected work."""

    worker: ActorRef
    count: int
    expected_us: int


@message
class BalancerRestarted:
    """balancer -> acceptor -> sessions -> tasks and worker proxies: report waiting tasks and free workers again.

    Tasks ignore it if their attempt is later than `attempt`: those were reported to the new balancer, and may be
    assigned already.
    """

    attempt: int
