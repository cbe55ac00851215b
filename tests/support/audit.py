"""An audit that listens to all events of a scheduler: they must be consistent, and agree with the scheduler's state.

A test starts it and checks it later:

    audit = simulation.audit()      # from now on
    ...
    audit.check(simulation)         # whenever the scheduler is idle
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from scaler.actors.vocabulary.events import (
    BROKE,
    NEVER_STARTED,
    SUBMITTED,
    ObjectFilled,
    ObjectGone,
    ObjectStored,
    PartRestarted,
    PeerChanged,
    PeerDisconnected,
    PeerJoined,
    PeerLeft,
    PeerReconnected,
    PeerRefused,
    TaskMoved,
)
from scaler.actors.vocabulary.task_states import (
    ADOPTED,
    ASSIGNED,
    FAILED,
    FINAL,
    READY,
    RUNNING,
    Event,
    State,
    next_state,
    shown_state,
)
from scaler.ids import ClientId, ObjectId, is_later
from scaler.kit import Actor, ActorRef, handles
from scaler.wire.messages.vocabulary import CANCELED, FAILURES

if TYPE_CHECKING:
    from tests.support.inside import Inside


class TaskHistory:
    def __init__(self, moved: TaskMoved) -> None:
        self.client_id = moved.client_id
        self.state: State | None = READY
        """None after its actor broke"""
        self.attempt = 0
        self.was_adopted = False
        """whether its attempt may have a number of a former scheduler"""
        self.worker: ActorRef | None = None
        self.events: list[Event] = []
        self.rows = moved.spec.rows
        """the number of rows of a range, which ends without an event when its rows have ended, or return; else 0"""
        if moved.event != SUBMITTED:  # rows of a range that has ended early: they were in that range until now
            self.state, self.worker = RUNNING, moved.worker
            self.attempt = 0 if moved.worker is None else moved.attempt  # without a worker, it is the next attempt

    @property
    def has_ended(self) -> bool:
        return self.state is None or self.state in FINAL

    def add(self, moved: TaskMoved) -> None:
        """Change the state by the table of states. Raises an error if the table does not have this event."""
        assert not self.has_ended, f"{moved} arrives after the end"
        assert self.state is not None
        self.events.append(moved.event)
        if self.rows and moved.spec.rows != self.rows:
            return  # about rows that have ended before the others, or about the row that goes on
        if moved.event == BROKE:
            self.state = None
            return
        state = next_state(self.state, moved.event)
        assert state is not None, f"{moved} reports an event that changes nothing"
        assert moved.state in (FAILURES if state is FAILED else {shown_state(state)}), moved
        self.state = state
        if moved.event == ASSIGNED:
            assert moved.worker is not None, moved
            is_new = not self.attempt or self.was_adopted or is_later(moved.attempt, self.attempt)
            assert is_new, f"{moved} after attempt {self.attempt}"
            self.attempt, self.worker = moved.attempt, moved.worker
        elif moved.event == ADOPTED:
            assert moved.worker is not None, moved
            self.attempt, self.worker, self.was_adopted = moved.attempt, moved.worker, True
        elif moved.worker is not None:
            assert (moved.attempt, moved.worker) == (self.attempt, self.worker), moved


class Audit(Actor):
    """The listener. `check` reports its failed assertions."""

    def __init__(self) -> None:
        self.tasks: dict[ActorRef, TaskHistory] = {}
        self.present: dict[ActorRef, PeerJoined] = {}
        self.clients: set[ClientId] = set()
        self.workers: set[ActorRef] = set()
        self.went: list[PeerLeft] = []
        self.refused: list[PeerRefused] = []
        self.cut: Counter[ActorRef] = Counter()
        self.objects: dict[ObjectId, int] = {}
        self.restarted: list[str] = []
        self.heard: Counter[type] = Counter()
        self.error: BaseException | None = None

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        self.error = error

    @handles(TaskMoved)
    def _moved(self, moved: TaskMoved) -> None:
        self.heard[TaskMoved] += 1
        if moved.event == SUBMITTED:
            assert moved.task not in self.tasks, f"{moved} arrives twice"
            assert moved.client_id in self.clients, f"{moved} of a client that never joined"
            self.tasks[moved.task] = TaskHistory(moved)
            return
        assert moved.worker is None or moved.worker in self.workers, f"{moved} at a worker that never joined"
        if moved.event == NEVER_STARTED:
            assert moved.state in FAILURES | {CANCELED}, f"{moved} is no end"
            return
        if moved.task not in self.tasks:
            self.tasks[moved.task] = TaskHistory(moved)
        self.tasks[moved.task].add(moved)

    @handles(PeerJoined)
    def _came(self, came: PeerJoined) -> None:
        assert came.session not in self.present, f"{came} arrives twice"
        assert len(came.workers) <= len(came.identity.worker_names), came
        self.present[came.session] = came
        self.workers.update(came.workers)
        self.clients.add(ClientId(came.identity.peer_id))

    @handles(PeerChanged)
    def _changed(self, changed: PeerChanged) -> None:
        self.present[changed.session] = replace(self.present[changed.session], identity=changed.identity)
        assert len(changed.workers) == len(changed.names), changed
        self.workers.update(changed.workers)

    @handles(PeerDisconnected, PeerReconnected)
    def _cut_or_back(self, news: PeerDisconnected | PeerReconnected) -> None:
        assert news.session in self.present, f"{news} of a peer without a session"
        self.heard[type(news)] += 1

    @handles(PeerLeft)
    def _went(self, went: PeerLeft) -> None:
        assert self.present.pop(went.session).identity == went.identity
        self.went.append(went)

    @handles(PeerRefused)
    def _refused(self, refused: PeerRefused) -> None:
        self.refused.append(refused)

    @handles(PartRestarted)
    def _restarted(self, restarted: PartRestarted) -> None:
        self.restarted.append(restarted.part)

    @handles(ObjectStored)
    def _stored(self, stored: ObjectStored) -> None:
        assert stored.object_id not in self.objects, f"{stored} arrives twice"
        assert stored.owner is None or stored.owner in self.clients, f"{stored} of a client that never joined"
        self.objects[stored.object_id] = stored.size_bytes

    @handles(ObjectFilled)
    def _filled(self, filled: ObjectFilled) -> None:
        assert self.objects[filled.object_id] == 0, f"{filled} was filled before"
        self.objects[filled.object_id] = filled.size_bytes

    @handles(ObjectGone)
    def _gone(self, gone: ObjectGone) -> None:
        del self.objects[gone.object_id]

    def check(self, inside: Inside) -> None:
        """Check that the received events agree with the scheduler's state. Raises `AssertionError` otherwise."""
        if self.error is not None:
            raise AssertionError("an event contradicts the events before it") from self.error
        tree = inside.tree
        sessions = {peer.session for peer in tree.directory.peers.values() if not peer.session.is_stopped()}
        assert set(self.present) == sessions
        stored = tree.objects.statistics()
        n_bytes = sum(each.size_bytes for each in tree.objects.objects.values())
        assert (len(self.objects), sum(self.objects.values())) == (stored["objects"], n_bytes)
        open_tasks = {
            task
            for task, history in self.tasks.items()
            if not (history.has_ended or (history.rows and task.is_stopped()))
        }
        assert {task for task in self.tasks if not task.is_stopped()} == open_tasks
