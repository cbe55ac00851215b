"""Messages about tasks, between tasks, sessions, worker proxies and the balancer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from scaler.actors.vocabulary.needs import NO_OFFER, Needs, Offer
from scaler.actors.vocabulary.task_states import READY, State, shown_state
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId, public_id
from scaler.kit import ActorRef
from scaler.message import message
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import NO_GRAPH, ExplainResponse, Task, TaskResult
from scaler.wire.messages.vocabulary import Reason
from scaler.wire.messages.worker import RunResult

# Tasks and their workers


@message
class TaskReady:
    """task -> balancer: the task can run.

    Attributes:
        goes_first: whether the task is placed ahead of new tasks: it is a retry, or its inputs have ended.
        near_worker: a worker on the host that has most of the task's data.
        account: the account whose share the task uses.
        is_new: whether the task has not been accepted yet, so that it may be refused.
        context: the `ClientContext` of a task whose start is recorded before it is sent; None for other tasks.
        needs: the resources that the task requests; None if any worker may run it.
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
    """balancer -> task: the task was removed from the queue."""


@message
class TaskNotWaiting:
    """balancer -> task: the task to withdraw is not in the queue: it is assigned, or was forgotten."""


@message
class TaskRefused:
    """balancer -> task: the task is refused, and will not run."""

    attempt: int
    sentence: str


@message
class AssignTasks:
    """balancer -> worker proxy: run these tasks, and report the expected work of each ended task (`LoadFreed`)."""

    tasks: list[tuple[TaskReady, int]]
    """the tasks, each with its expected work in microseconds"""


@message
class TaskAssigned:
    """worker proxy -> all tasks of an `AssignTasks`: your attempt was sent to this worker."""

    worker: ActorRef
    attempts: Mapping[ActorRef, int]
    """the number of the attempt of each task"""


@message
class StartRequested:
    """worker proxy -> job: this attempt at an at-most-once row can start once the start is recorded on disk."""

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
    """task -> job: an attempt that was held, or sent to a worker, has ended without a start."""

    task_id: TaskId


@message
class CancelRun:
    """task -> worker proxy: stop this attempt."""

    task_id: TaskId
    attempt: int


@message
class CancelOrphan:
    """adoption or task -> worker proxy: stop this attempt, unless a task has adopted it."""

    task_id: TaskId
    attempt: int


@message
class RecallRun:
    """task -> worker proxy: recall this attempt, unless it has started."""

    task_id: TaskId
    attempt: int


@message
class RunLost:
    """worker proxy -> task: the worker and this attempt are lost.

    Attributes:
        was_running: whether the task may have been running, and so may be the cause of the loss.
        was_ordered: whether the agent of the worker may have received the attempt.
        was_unacknowledged: whether the lost agent had not acknowledged the attempt, or one of its large values.
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
class RangeRefused:
    """balancer or worker proxy -> task: no worker takes the range: it is too long, or its worker takes no ranges."""

    attempt: int


class ReturnedRows(NamedTuple):
    """Rows of a range that has ended early, which are opened again."""

    spec: Task
    """a range, or one row as a single task"""
    event: RunResult | RunLost | None = None
    """what has ended the run of the row, if the row fails or runs again because of that; None: the row did not run"""
    worker: ActorRef | None = None
    """the worker of that run"""


@message
class RangeEnded:
    """task of a range -> client session or job: the range has ended early.

    Attributes:
        first: the id of the first row.
        results: the results of rows that have ended.
        running: the row that runs, which is from now on the only row of the task; None: the task has ended.
        returned: the rows to open again, before newer tasks of the same priority.
        context: the `ClientContext` of the rows.
    """

    context: Any
    first: TaskId
    results: Sequence[TaskResult]
    running: Task | None
    returned: Sequence[ReturnedRows]


@message
class CancelTask:
    """client session -> task: do not start the task.

    Attributes:
        waiting: whether to let the task continue if it has started; if False, its run is stopped.
    """

    waiting: bool = False


@message
class RetryDue:
    """task -> itself, by timer: the pause before a retry has ended."""


@message
class TaskDone:
    """task -> client session or job: the task has ended. A result without frames is sent as a `TaskResult`."""

    result: TaskResult
    frames: Frames
    worker: ActorRef | None = None
    function_id: ObjectId = ObjectId(NO_ID)
    """the function that computed a large result"""


# Explanations


class PastTry(NamedTuple):
    """An ended try of a task, and how the try ended."""

    number: int
    at: float
    """when the try ended, by the clock of the scheduler"""
    event: str
    sentence: str


class Tries(NamedTuple):
    """The number of a task's present try (from 1; 0: unknown), and the last tries before the present try."""

    number: int
    past: tuple[PastTry, ...] = ()
    """the last tries before the present try, at most `PAST_TRIES_MOST`"""

    def after(self, event: str, sentence: str, now: float) -> Tries:
        """Return the numbers for the next try: the present try has ended, and becomes the last one in `past`."""
        ended = PastTry(self.number, now, event, sentence[:PAST_CHARACTERS_MOST])
        return Tries(self.number + 1, (*self.past, ended)[-PAST_TRIES_MOST:])

    def shown(self, now: float) -> str:
        """Return a text for display that says how the last tries ended, and how long ago."""
        return "; ".join(
            f"try {number} {event} {age(now - at)} ago: {sentence}" for number, at, event, sentence in self.past
        )


def age(seconds: float) -> str:
    """Return a number of seconds as a text for display, such as `5 min`."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


PAST_TRIES_MOST = 5
PAST_CHARACTERS_MOST = 160
"""Limit of the characters of the text about one past try. The texts of all past tries form one sentence."""
NOT_KNOWN, FIRST_TRY = Tries(0), Tries(1)

SHOWN_SECONDS = 1.0
"""A shorter wait is not mentioned in explanations."""
ID_SHOWN = 8
"""The number of hex digits of a short id that texts contain."""
UINT64_MOST = 2**64 - 1


def shown_task(task_id: TaskId, name: str = "") -> str:
    """Return how texts name a task: by its name, if that is known, and its short id."""
    short_id = public_id(task_id).hex()[:ID_SHOWN]
    return f"task {name} ({short_id})" if name else f"task {short_id}"


@message
class ExplainTask:
    """monitor -> client session -> task: explain your state to `asker`, in an `ExplainResponse` about `task_id`.

    Attributes:
        task_id: the task that the client asked about: the receiver, or a task that waits for the receiver.
        because: the start of the answer, if `task_id` waits for the receiver of this message; else empty.
        seconds: how long `task_id` has waited for the receiver of this message.
        asked_at: when the client asked, by the clock of the scheduler.
        is_wanted: whether the client waits for the result. If so, a paused worker may be given the task.
        graph_id: the graph of the task, if known.
    """

    asker: ActorRef
    task_id: TaskId
    because: str = ""
    seconds: float = 0.0
    asked_at: float = 0.0
    is_wanted: bool = False
    graph_id: GraphId = NO_GRAPH

    def with_name(self, task_id: TaskId, name: str) -> ExplainTask:
        """Return this question with the name of a task, if the start of the answer has only its short id."""
        return replace(self, because=self.because.replace(shown_task(task_id), shown_task(task_id, name)))

    def answer(
        self, state: State, found: tuple[Reason, str], tries: Tries = NOT_KNOWN, worker: str = "", seconds: float = 0.0
    ) -> None:
        """Answer for this task, or for a task that waits for this task (`because`).

        Args:
            found: what the task waits for, as a word, and as a sentence that tells people what to do.
            seconds: for how long, at least, this task has been in its state; 0: unknown.
        """
        sentence, at, shown = found[1], self.asked_at, shown_state(state)
        if state is READY and seconds >= SHOWN_SECONDS:
            who = "that task" if self.because else "it"
            sentence = f"{sentence}; {who} has waited for {age(seconds)}"
        if self.because:
            shown, tries, worker, seconds = shown_state(READY), NOT_KNOWN, "", self.seconds
            sentence = self.because + (sentence[3:] if sentence.startswith("it ") else f"waits: {sentence}")
        milliseconds = min(int(seconds * 1000), UINT64_MOST)
        what = found[0], sentence, worker, tries.number, tries.shown(at), milliseconds
        self.asker.send(ExplainResponse(self.task_id, shown, *what))


@message
class ExplainForAdmin:
    """session of an admin -> other sessions in turn: answer if your client has the task; else ask the next."""

    question: ExplainTask
    others: Iterator[ActorRef]


@message
class CancelForAdmin:
    """census -> client sessions: cancel the tasks with these short ids, as monitors show them."""

    short_ids: frozenset[bytes]
    admin: str


@message
class ExplainWaiting:
    """task -> balancer: explain why the task has waited in the queue for at least `seconds`."""

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
    """worker proxy -> itself, by timer: answer this question now, unless the agent has reported where the run is."""

    asked: ExplainRun


@message
class KeepResult:
    """client session -> worker proxy: have the host keep this large result, because other tasks need it."""

    object_id: ObjectId


@message
class RequestMissing:
    """client session -> itself: request the results that waiting tasks need, and that have not arrived until now."""


# The balancer and its workers


@message
class WorkerJoined:
    """worker proxy -> balancer: the worker takes tasks.

    Attributes:
        queue_size: the most tasks that the worker takes at a time.
        tasks: the number of tasks that the worker has.
        expected_us: the expected work of these tasks in microseconds.
        host: the session of the agent of the worker.
        offer: the resources of the node of the worker.
        taken: the number of tasks of the worker by the resources that they use.
        is_unsure: whether the worker has runs whose resources are unknown.
        name: the name of the worker, for tasks that only this worker may run.
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
    """worker proxy -> balancer: the worker takes no more tasks. Until `WorkerForgotten`, tasks may still arrive."""

    worker: ActorRef


@message
class WorkerForgotten:
    """balancer -> worker proxy: the worker has been removed, and no further assignment follows."""


@message
class WorkersPausedAt:
    """agent session -> balancer: how many workers of this agent are now paused for lack of memory for results."""

    host: ActorRef
    held: int


@message
class WorkerFailed:
    """worker proxy -> balancer: the proxy failed, and assignments that were sent to the proxy recently may be lost."""

    worker: ActorRef


@message
class LoadFreed:
    """worker proxy -> balancer: tasks ended. `measured`: by function, microseconds and number of finished tasks."""

    worker: ActorRef
    count: int
    expected_us: int
    measured: dict[ObjectId, tuple[int, int]]


@message
class AmountsChanged:
    """worker proxy -> balancer: the number of runs with these needs has changed, other than by assignments."""

    worker: ActorRef
    changes: tuple[tuple[Needs, int], ...]
    is_unsure: bool = False


@message
class ReportsRequested:
    """balancer -> itself: reports that arrived before this message are outdated, and were requested again."""

    attempt: int


@message
class CheckBalance:
    """balancer -> itself, by timer: request new decisions from the policy, because time has passed."""


@message
class RecallTasks:
    """balancer -> worker proxy: recall up to `count` tasks that have not started."""

    count: int


@message
class TasksRecalled:
    """worker proxy -> balancer: `count` tasks of these functions, with this expected work, were returned."""

    worker: ActorRef
    count: int
    expected_us: int
    function_ids: set[ObjectId]


@message
class LoadResumed:
    """worker proxy -> balancer: `count` blocked tasks with this expected work have resumed, and count again."""

    worker: ActorRef
    count: int
    expected_us: int


@message
class BalancerRestarted:
    """balancer -> acceptor -> sessions -> tasks and worker proxies: report waiting tasks and free workers again.

    A task whose present attempt is later than `attempt` ignores this message: the new balancer already knows the task.
    """

    attempt: int
