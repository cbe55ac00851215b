"""Task: one actor for each task, from its submission to its end.

Written to by its client session (cancel), the balancer, and the worker proxy that runs it; sends to them, and to the
object store when it needs objects. It alone counts the attempts of the task.

Must never: decide which state comes next (`task_states` does), or accept news of any attempt but the current one.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from scaler.actors.events import BROKE, SUBMITTED, Events, TaskMoved
from scaler.actors.kit import Actor, ActorRef, handles
from scaler.actors.messages.objects import ReleaseObjects, UseObjects
from scaler.actors.messages.tasks import (
    BalancerRestarted,
    CancelRun,
    CancelTask,
    RunLost,
    RunRecalled,
    TaskAssigned,
    TaskDone,
    TaskNotWaiting,
    TaskReady,
    TaskRefused,
    TaskWithdrawn,
    WithdrawTask,
)
from scaler.actors.task_states import (
    ASSIGNED,
    BALANCER_RESTARTED,
    CANCEL,
    CANCELED,
    CANCELING,
    CRASHED,
    CRASHED_TOO_OFTEN,
    EVENT_OF_STATUS,
    FAILED,
    FINISHED,
    LOST,
    LOST_TOO_OFTEN,
    NOT_WAITING,
    READY,
    RECALLED,
    REFUSED,
    RUNNING,
    SUCCEEDED,
    WITHDRAWING,
    WITHDRAWN,
    Event,
    State,
    next_state,
    shown_state,
)
from scaler.ids import ClientId
from scaler.serialization import Frames, size_of
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

REASON_BYTES_MOST = 400
"""The most bytes of a worker's text in an event; a peer may send anything."""


class Home:
    """The common part of a client's tasks: their collaborators, their crash limit and their account."""

    __slots__ = (
        "account", "balancer", "client_id", "crash_limit", "events", "next_attempt", "object_store", "session",
    )  # fmt: skip

    def __init__(
        self,
        session: ActorRef,
        balancer: ActorRef,
        object_store: ActorRef,
        events: Events,
        client_id: ClientId,
        crash_limit: int,
        next_attempt: Callable[[], int],
        account: int = 0,
    ) -> None:
        self.session = session
        self.balancer = balancer
        self.object_store = object_store
        self.events = events
        self.client_id = client_id
        self.crash_limit = crash_limit
        self.next_attempt = next_attempt
        self.account = account

    def of_graph(self, graph: ActorRef) -> Home:
        """Return the home of a graph's tasks, with the graph instead of the session."""
        home = copy(self)
        home.session = graph
        return home

    def of_account(self, account: int) -> Home:
        """Return the home of tasks with another account."""
        home = copy(self)
        home.account = account
        return home


class TaskActor(Actor):
    """One task."""

    _near: ActorRef | None = None
    """the worker on whose host most of the task's data is; rarely set"""

    _goes_first = False
    """whether it goes before new tasks, because it continues a running graph"""

    def __init__(self, spec: Task, home: Home, near: ActorRef | None = None, goes_first: bool = False) -> None:
        if near is not None:
            self._near = near
        if goes_first:
            self._goes_first = True
        self._spec = spec
        self._home = home
        self._state = READY
        self._attempt = home.next_attempt()
        self._crashes = 0
        self._worker: ActorRef | None = None

    def on_start(self) -> None:
        if self._spec.object_ids:
            self._home.object_store.send(UseObjects(self._spec.object_ids))
        if self._home.events.followed is not None:
            self._tell_if_followed(SUBMITTED)
        self._say_ready(self._goes_first, is_new=True)

    # News

    @handles(TaskAssigned)
    def _assigned(self, assigned: TaskAssigned) -> None:
        if assigned.attempt != self._attempt:
            assigned.worker.send(CancelRun(self._spec.task_id, assigned.attempt))
            return
        self._worker = assigned.worker
        self._move(ASSIGNED, None, assigned.worker)

    @handles(TaskRefused)
    def _refused(self, refused: TaskRefused) -> None:
        if refused.attempt == self._attempt:
            sentence = refused.sentence.encode()
            status = TaskStatus.NO_WORKER
            self._move(REFUSED, RunResult(self._spec.task_id, 0, refused.attempt, status, sentence, 0, ()))

    @handles(RunResult)
    def _finished(self, result: RunResult) -> None:
        worker = self._worker
        if result.attempt != self._attempt or worker is None:
            return
        event = EVENT_OF_STATUS[result.status]
        if event is not FINISHED:  # a success is the end, which tells where it was
            self._worker = None
        if event is CRASHED and self._count_crash():
            event = CRASHED_TOO_OFTEN
        self._move(event, result, worker)

    @handles(RunLost)
    def _lost(self, lost: RunLost) -> None:
        worker = self._worker
        if lost.attempt != self._attempt or worker is None:
            return
        self._worker = None
        event = LOST_TOO_OFTEN if lost.was_running and self._count_crash() else LOST
        sentence = f"its worker {lost.worker_name} was lost"
        status = TaskStatus.WORKER_DIED
        self._move(event, RunResult(self._spec.task_id, 0, lost.attempt, status, sentence.encode(), 0, ()), worker)

    @handles(RunRecalled)
    def _recalled(self, returned: RunRecalled) -> None:
        worker = self._worker
        if returned.attempt == self._attempt and worker is not None:
            self._worker = None
            self._move(RECALLED, None, worker)

    @handles(CancelTask)
    def _cancel(self, _cancel: CancelTask) -> None:
        self._move(CANCEL)

    @handles(TaskWithdrawn)
    def _withdrawn(self, _withdrawn: TaskWithdrawn) -> None:
        self._move(WITHDRAWN)

    @handles(TaskNotWaiting)
    def _not_waiting(self, _not_waiting: TaskNotWaiting) -> None:
        self._move(NOT_WAITING)

    @handles(BalancerRestarted)
    def _balancer_restarted(self, _restarted: BalancerRestarted) -> None:
        self._move(BALANCER_RESTARTED)

    def _count_crash(self) -> bool:
        """Count one more death while this task ran. Return whether it was the last one allowed."""
        self._crashes += 1
        return self._crashes >= self._home.crash_limit

    # States

    def _move(self, event: Event, result: RunResult | None = None, worker: ActorRef | None = None) -> None:
        """Change the state as the table says. `worker`: the one that had this attempt."""
        state = next_state(self._state, event)
        if state is None:
            return
        self._state = state
        if state is RUNNING or state is SUCCEEDED:  # the usual way
            if self._home.events.followed is not None:
                self._tell_if_followed(event, worker)
            if result is not None:  # else the worker proxy has sent it on
                self._enter_succeeded(result)
            return
        if self._home.events.listener is not None:
            self._tell(event, result, worker or self._worker)
        self._enter(state, event, result)

    def _enter(self, state: State, event: Event, result: RunResult | None) -> None:
        if state is READY:
            self._say_ready_again(again=event is not BALANCER_RESTARTED)
        elif state is WITHDRAWING:
            self._enter_withdrawing(event)
        elif state is CANCELING:
            self._enter_canceling()
        elif state is FAILED and result is not None:
            self._enter_failed(result)
        elif state is CANCELED:
            self._end(TaskStatus.CANCELED, b"")

    def _tell_if_followed(self, event: Event, worker: ActorRef | None = None) -> None:
        followed = self._home.events.followed
        if followed is not None and self._spec.task_id in followed:
            self._tell(event, None, worker)

    def _tell(self, event: Event, result: RunResult | None, worker: ActorRef | None) -> None:
        status = None if result is None else result.status
        reason = ""
        if result is not None and status not in (TaskStatus.SUCCESS, TaskStatus.FAILED):  # those have no sentence
            reason = result.payload[:REASON_BYTES_MOST].decode("utf-8", "replace")
        self._tell_moved(event, shown_state(self._state, status), worker, reason)

    def _tell_moved(self, event: Event, state: str, worker: ActorRef | None, reason: str) -> None:
        home = self._home
        listener = home.events.listener
        if listener is not None:
            spec, attempt = self._spec, self._attempt
            listener.send(TaskMoved(self.actor_ref, spec, home.client_id, event, state, attempt, worker, reason))

    def _say_ready_again(self, again: bool) -> None:
        # A new attempt also when the balancer only asks: what the old one assigned last may still be on its way.
        self._attempt = self._home.next_attempt()
        self._say_ready(again, is_new=False)

    def _say_ready(self, again: bool, is_new: bool) -> None:
        home, spec, attempt = self._home, self._spec, self._attempt
        home.balancer.send(TaskReady(self._actor_ref, spec, attempt, again, self._near, home.account, is_new))

    def _enter_withdrawing(self, event: Event) -> None:
        if event is not CANCEL:
            # The balancer does not know it. With a new attempt there it is sure to find it; and if the old one was
            # assigned after all, that news now comes too late, and is cancelled at the worker.
            self._say_ready_again(again=False)
        self._withdraw()

    def _withdraw(self) -> None:
        home = self._home
        home.balancer.send(WithdrawTask(self.actor_ref, self._spec.priority, home.account))

    def _enter_canceling(self) -> None:
        if self._worker is not None:
            self._worker.send(CancelRun(self._spec.task_id, self._attempt))

    def _enter_succeeded(self, result: RunResult) -> None:
        self._end(TaskStatus.SUCCESS, result.payload, result.frames, result.profile)

    def _enter_failed(self, result: RunResult) -> None:
        payload = result.payload
        if result.status in (TaskStatus.PROCESSOR_DIED, TaskStatus.WORKER_DIED):
            payload += f" (attempt {self._crashes} of {self._home.crash_limit})".encode()
        self._end(TaskStatus(result.status), payload, (), result.profile)

    def _end(self, status: TaskStatus, payload: bytes, frames: Frames = (), profile: bytes = b"") -> None:
        home, spec = self._home, self._spec
        if spec.object_ids:
            home.object_store.send(ReleaseObjects(spec.object_ids))
        size = size_of(frames) if frames else 0
        home.session.send(TaskDone(TaskResult(spec.task_id, status, payload, size, profile), frames, self._worker))
        self.stop_now()

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Clean up: in the queue, at the worker, and in the store."""
        home, spec = self._home, self._spec
        self._tell_moved(BROKE, shown_state(FAILED, TaskStatus.INTERNAL_ERROR), self._worker, repr(error))
        if self._worker is not None:
            self._worker.send(CancelRun(spec.task_id, self._attempt))
        else:
            self._withdraw()
        if spec.object_ids:
            home.object_store.send(ReleaseObjects(spec.object_ids))

    @property
    def state(self) -> State:
        """The state, for tests and the monitor."""
        return self._state
