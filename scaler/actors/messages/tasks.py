"""Tasks, graphs, the balancer and its workers: who says what to whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scaler.actors.policy.needs import NO_OFFER, Needs, Offer
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.message import message
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import GraphInput, Task, TaskResult

# A task finds its worker


@message
class TaskReady:
    """task -> balancer: I can run. `goes_first`: a retry, or the next node of a running graph; queued ahead of new
    tasks. `near_worker`: the worker on whose host most of my data is. `account`: whose share I use. `is_new`: I was
    never accepted, and may be refused. `context`: of a range, to split it where it runs; of a task that is held before
    it begins (`StartRequested`), whom to ask. `needs`: what I need beside a free worker.
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
class AssignTasks:
    """balancer -> worker proxy: have these tasks run; each time that one has ended, give back so much work."""

    tasks: list[tuple[TaskReady, int]]
    """each with the microseconds of work that it counts for"""


@message
class TaskAssigned:
    """worker proxy -> task: your attempt is on its way to my worker. One message for all tasks of an `AssignTasks`."""

    worker: ActorRef
    attempts: Mapping[ActorRef, int]
    """by task"""


@message
class StartRequested:
    """worker proxy -> job: a worker has a place for this attempt at a row that may run once. I hold the order until you
    have noted on disk that it may begin.
    """

    worker: ActorRef
    task_id: TaskId
    attempt: int


@message
class StartRun:
    """job -> worker proxy: it is noted. Have this attempt begin."""

    task_id: TaskId
    attempt: int


@message
class RunNotStarted:
    """task -> job: the attempt that was held, or ordered, has come back to me, and has not begun."""

    task_id: TaskId


@message
class CancelRun:
    """task -> worker proxy: stop this attempt."""

    task_id: TaskId
    attempt: int


@message
class RecallRun:
    """task -> worker proxy: have this attempt come back, if it has not begun."""

    task_id: TaskId
    attempt: int


@message
class RunLost:
    """worker proxy -> task: my worker is gone, and this attempt too. `was_ordered`: its agent may have heard of it.
    `was_on_its_way`: it had not said that it has.
    """

    attempt: int
    worker_name: str
    was_running: bool
    was_ordered: bool = True
    was_on_its_way: bool = False


@message
class RunRecalled:
    """worker proxy -> task: my worker gave this attempt back before it started."""

    attempt: int


@message
class RangeTooLong:
    """balancer -> task: you are too long for a turn; have each of your rows report ready as a task of its own."""

    attempt: int


@message
class TaskSplit:
    """worker proxy or the task itself -> task: this attempt of yours is one task for each of your rows from now on, and
    you are none.
    """

    attempt: int
    rows: Sequence[ActorRef]


@message
class CancelTask:
    """client session or graph -> task: never run, or stop. `waiting`: only if you have not begun."""

    waiting: bool = False


@message
class RetryDue:
    """task -> itself, by timer: I may run again."""


@message
class TaskDone:
    """task -> client session or graph: this is my end. `worker`: who has sent the result. A client session gets the
    `TaskResult` alone if there are no frames, as nearly always.
    """

    result: TaskResult
    frames: Frames
    worker: ActorRef | None = None
    function_id: ObjectId = ObjectId(NO_ID)
    """of what is large"""


# What it waits for


class PastTry(NamedTuple):
    """A try that has ended."""

    number: int
    at: float
    """when, by the clock of the scheduler"""
    event: str
    sentence: str


class Tries(NamedTuple):
    """Which try of a task this is, from 1; 0: not known."""

    number: int
    past: tuple[PastTry, ...] = ()
    """how the last ones before it ended"""

    def after(self, event: str, sentence: str, now: float) -> Tries:
        """Return the next try, after this one has ended."""
        ended = PastTry(self.number, now, event, sentence[:PAST_CHARACTERS_MOST])
        return Tries(self.number + 1, (*self.past, ended)[-PAST_TRIES_MOST:])

    def told(self, now: float) -> str:
        """Return how the last ones before it ended, and how long ago, for people."""
        return "; ".join(
            f"try {number} {event} {age(now - at)} ago: {sentence}" for number, at, event, sentence in self.past
        )


def age(seconds: float) -> str:
    """Return a time for people."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


PAST_TRIES_MOST = 5
PAST_CHARACTERS_MOST = 160
"""Of each: all together are one sentence of a message."""
NOT_KNOWN, FIRST_TRY = Tries(0), Tries(1)


@message
class ExplainTask:
    """client session or graph -> task: where are you, and what do you wait for? Answered to `asker` by an
    `ExplainResponse` about `task_id`. `because`: that one waits for you, has for so many `seconds`, and its answer
    begins so. `hops`: how many graphs have handed it on. `asked_at`: when, by the clock of the scheduler. `is_wanted`:
    the client waits for the result: if there is no room for values, be the next that begins.
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
    """client session of an admin -> the others, one after the other: is this a task of your client? If not, the next
    one of `others` is asked.
    """

    question: ExplainTask
    others: Iterator[ActorRef]


@message
class CancelForAdmin:
    """census -> all client sessions -> their graphs: an admin has tasks cancelled, by the short ids of monitors."""

    short_ids: frozenset[bytes]
    admin: str
    """who it is"""


@message
class ExplainNode:
    """client session -> graph: the same of a node."""

    question: ExplainTask
    position: int


@message
class ExplainInput:
    """graph -> client session: a node of mine waits for this task of the client; hand the question on."""

    question: ExplainTask
    input: GraphInput


@message
class ExplainWaiting:
    """task -> balancer: I wait with you, for so many seconds at least; answer this, and say which try it is."""

    question: ExplainTask
    task: ActorRef
    priority: int
    account: int
    needs: Needs | None
    tries: Tries
    seconds: float


@message
class ExplainRun:
    """task -> worker proxy: you have me; answer this."""

    question: ExplainTask
    task_id: TaskId
    tries: Tries


@message
class AnswerOverdue:
    """worker proxy -> itself, by timer: has the agent said where this run is?"""

    asked: ExplainRun


# Graphs


@message
class CancelGraph:
    """client session -> graph: start nothing more, and stop what runs."""


@message
class GraphNodeDone:
    """graph -> client session: a node that your client wants has ended. `worker`: the one that made its result, if the
    node has just ended.
    """

    graph_id: GraphId
    result: TaskResult
    frames: Frames
    worker: ActorRef | None = None
    function_id: ObjectId = ObjectId(NO_ID)


@message
class AwaitResult:
    """graph -> client session -> the graph of the task, if it is a node: tell me how this task of the client ends."""

    input: GraphInput
    graph: ActorRef


@message
class InputKnown:
    """graph -> client session: a node of this graph, for which others wait, has ended before. The client knows."""

    source: GraphId
    done: TaskDone


@message
class KeepResult:
    """graph -> worker proxy: other nodes need this large result of yours, have your host keep it."""

    object_id: ObjectId


@message
class GraphEnded:
    """graph -> client session: all my nodes have ended, and so do I. A graph that came after me may have my id. `lost`:
    why those of which nothing was said are to be said again.
    """

    graph_id: GraphId
    graph: ActorRef
    lost: str = ""


# The balancer and its workers


@message
class WorkerJoined:
    """worker proxy -> balancer: I take tasks, at most so many at a time, and have so many, of so much work. `host`: the
    session of my agent, the same for all workers beside me. `offer`: what my node has. `taken`: how many of my tasks
    take what of that. `is_unsure`: I have runs of which it is not known. `name`: for tasks that only I may run.
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
    """worker proxy -> balancer: I take none any more. Answered, since an assignment may be on its way to me."""

    worker: ActorRef


@message
class WorkerForgotten:
    """balancer -> worker proxy: no assignment of mine comes after this."""


@message
class WorkersPausedAt:
    """agent session -> balancer: so many workers of this agent begin nothing, because there is no room for results."""

    host: ActorRef
    held: int


@message
class WorkerFailed:
    """worker proxy -> balancer: I am dead, and what you assigned to me last may be lost."""

    worker: ActorRef


@message
class LoadFreed:
    """worker proxy -> balancer: so many of my tasks ended, of so much work as you counted. `measured`: how long those
    took that ran to their end, by function: total of microseconds, and number.
    """

    worker: ActorRef
    count: int
    expected_us: int
    measured: dict[ObjectId, tuple[int, int]]


@message
class AmountsChanged:
    """worker proxy -> balancer: so many of my tasks that take this have come, or ended if it is less than 0. You have
    counted assignments already.
    """

    worker: ActorRef
    changes: tuple[tuple[Needs, int], ...]
    is_unsure: bool = False


@message
class ReportsRequested:
    """balancer -> itself, when it has all report again: tasks said what lies before this in its mailbox earlier."""

    attempt: int


@message
class CheckBalance:
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
class LoadResumed:
    """worker proxy -> balancer: so many of my tasks that were freed because they waited go on, of so much work."""

    worker: ActorRef
    count: int
    expected_us: int


@message
class BalancerRestarted:
    """balancer -> acceptor -> sessions -> tasks and worker proxies: tell me again what waits and who is free.

    Of tasks only attempts before this number: later ones were said to the new balancer, and may be assigned already.
    """

    attempt: int
