"""WaitingTask: a task that needs results of other tasks, or whose result other tasks need; and the graph it belongs to.

Only `WaitingTasks` changes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scaler.actors.tasks.client_context import ClientContext
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.pickling.serialization import BLOCK_BYTES, WORTH_AN_OBJECT_BYTES, Frames
from scaler.wire.messages.client import NO_GRAPH, Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import failed_input_reason

AWAITED, WAITING, RUNNING = -3, -2, -1
"""States of an open task, in this order: its call is not here; its call waits for results; it is a task actor."""

SHARED_BYTES = 100_000
"""A result becomes an object if its consumers' copies exceed this together, and it has `WORTH_AN_OBJECT_BYTES`."""


class CallTerms(NamedTuple):
    """The terms that the tasks of a graph, or of a single call, have in common."""

    context: ClientContext
    priority: int
    name: str
    named_by_key: int
    options: bytes
    since: float
    """when the first of these tasks arrived, by the clock of the scheduler"""


class WaitingTask:
    """A task, or the result of a task, that other tasks need.

    Attributes:
        needs: the tasks whose results it needs; its arguments name them by their index.
        missing: how many of these results are not available.
        dependents: the tasks that need its result and may have to wait for it; None if the list would be empty.
        n_users: the number of open tasks that need its result.
        made_by: the worker that made the result, if it is large enough to run its consumers there.
        graph: the graph of the task; None if it is in no graph.
        status: how it ended, as a `TaskStatus`; before, one of `AWAITED`, `WAITING` and `RUNNING`.
        is_stored: whether its result is an object that is kept for its users.
        is_again: whether its result was lost or dropped, so that its call may be sent once more.
    """

    __slots__ = (
        "block", "dependents", "frames", "function_id", "graph", "is_again", "is_stored", "made_by", "missing",
        "n_users", "needs", "object_ids", "payload", "profile", "size", "status", "task_id", "terms", "unwanted",
    )  # fmt: skip

    def __init__(self, task_id: TaskId) -> None:
        self.task_id = task_id
        self.function_id = ObjectId(NO_ID)
        self.block = self.object_ids = self.payload = self.profile = b""
        self.frames: Frames = ()
        self.unwanted = 1
        self.graph: TaskGraph | None = None
        self.terms: CallTerms | None = None
        self.needs: tuple[WaitingTask, ...] = ()
        self.dependents: list[WaitingTask] | None = None
        self.missing = self.n_users = self.size = 0
        self.made_by: ActorRef | None = None
        self.status = AWAITED
        self.is_stored = self.is_again = False

    def take_call(self, spec: Task, terms: CallTerms) -> None:
        """Take the call of the task, which then waits for the results that it needs."""
        self.function_id, self.object_ids = spec.function_id, spec.object_ids
        self.block, self.frames, self.unwanted = spec.payload, spec.frames, spec.unwanted
        self.terms = terms
        self.status = WAITING

    def add_dependent(self, task: WaitingTask) -> None:
        """Add a task that needs the result of this one."""
        if self.dependents is None:
            self.dependents = [task]
        else:
            self.dependents.append(task)

    def count_missing(self) -> None:
        """Count the missing results of a task whose call was sent again: its needs may have it twice as a dependent."""
        self.missing = sum(need.is_open for need in self.needs)

    @property
    def is_open(self) -> bool:
        """Whether the task has not ended, or its result was lost."""
        return self.status < 0

    @property
    def was_dropped(self) -> bool:
        """Whether the task has ended and its result is not here: no task needed it, or only its client has it."""
        if self.status == TaskStatus.SUCCESS:
            return not (self.is_stored or self.payload or self.n_users)  # a result that is needed may be empty
        return self.status == TaskStatus.CANCELED and self.terms is not None and self.function_id == NO_ID

    @property
    def graph_id(self) -> GraphId:
        """The id of the graph of the task; `NO_GRAPH` if it is in no graph."""
        return NO_GRAPH if self.graph is None else self.graph.graph_id

    def result(self) -> TaskResult:
        """Return its result, as the client receives it."""
        return TaskResult(self.task_id, self.status, self.payload, self.size, self.profile)

    def reason_for_dependents(self) -> bytes:
        """Return the payload of tasks that end because they need this failed task: a sentence that names it."""
        if self.status in (TaskStatus.FAILED, TaskStatus.CANCELED):  # a failure names its task itself
            return self.payload
        return failed_input_reason(self.task_id, self.payload)


class TaskGraph:
    """A graph of a client: a label on its tasks.

    Attributes:
        name: the name of all its tasks; empty if they have different names.
        size: the number of its tasks, of which some may not have arrived.
        nodes: the tasks that have arrived, by position.
        n_received: the tasks received since the client began to send the graph; known ones were sent again.
        n_open: the number of tasks in `nodes` that have not ended.
        is_complete: whether all tasks of the graph have arrived.
        given_up: after a cancel or a refusal: the status and payload with which all open tasks end.
        is_held: whether its tasks start only when all have arrived, because the client may have all its results.
        is_answered: whether the client has all its results, so that it was given up.
    """

    __slots__ = (
        "_indices",
        "given_up",
        "graph_id",
        "is_answered",
        "is_complete",
        "is_held",
        "n_open",
        "n_received",
        "name",
        "nodes",
        "size",
        "terms",
    )

    def __init__(self, spec: Task, context: ClientContext, since: float, *, is_held: bool) -> None:
        self.graph_id, self.size, self.name = spec.graph_id, spec.graph_tasks, spec.name
        self.terms = CallTerms(context, spec.priority, spec.name, spec.named_by_key, spec.options, since)
        self.nodes: list[WaitingTask] = []
        self.n_received = self.n_open = 0
        self.given_up: tuple[TaskStatus, bytes] | None = None
        self.is_held, self.is_complete, self.is_answered = is_held, False, False
        self._indices: dict[TaskId, int] | None = None

    def terms_of(self, spec: Task) -> CallTerms:
        """Return the terms of a task; one object for all tasks that have the same terms."""
        terms = self.terms
        what = spec.priority, spec.name, spec.named_by_key, spec.options
        if what != terms[1:5]:
            if spec.name != self.name:
                self.name = ""
            terms = self.terms = CallTerms(terms.context, *what, terms.since)
        return terms

    def find(self, task_id: TaskId, index: int) -> WaitingTask | None:
        """Return the task with an id; None if it has not arrived. `index`: the position that the id suggests."""
        nodes = self.nodes
        if index < len(nodes) and nodes[index].task_id == task_id:
            return nodes[index]
        if self._indices is None or len(self._indices) < len(nodes):
            self._indices = {node.task_id: position for position, node in enumerate(nodes)}
        position = self._indices.get(task_id)
        return None if position is None else nodes[position]


def preferred_worker(task: WaitingTask) -> ActorRef | None:
    """Return the worker that made the largest result that a task needs, if that is worth a preference."""
    return max(task.needs, key=lambda each: each.size).made_by


def worth_storing(task: WaitingTask) -> list[WaitingTask]:
    """Return the needed results to store as objects: shared ones, and the larger ones if all exceed one message."""
    values: Sequence[WaitingTask] = [each for each in task.needs if not each.is_stored]
    stored = [each for each in values if len(each.payload) * each.n_users > SHARED_BYTES and _is_large(each)]
    rest = [each for each in values if each not in stored]
    sum_bytes = sum(len(each.payload) for each in rest)
    for each in sorted(rest, key=lambda value: len(value.payload), reverse=True):
        if sum_bytes <= BLOCK_BYTES or not _is_large(each):
            break
        sum_bytes -= len(each.payload)
        stored.append(each)
    return stored


def _is_large(task: WaitingTask) -> bool:
    return len(task.payload) >= WORTH_AN_OBJECT_BYTES
