"""Events: reports what happened in the scheduler to one listener: a monitor, metrics, an audit.

Written to by tasks, sessions, the acceptor, the object store and the supervisor of the tree. Sends to the one listener,
an actor, which gets events as ordinary mail, in the order in which they happened. How to write a listener is in
docs/reference/events.md.

While no actor listens, an event costs one comparison, and nothing is allocated. A task that is assigned and succeeds
moves three times, a million of them three million times. So these usual moves are told only of tasks that the listener
follows; all other moves are told of every task.

Must never: answer questions about the present state, or delay what it reports.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NewType

from scaler.actors.tasks.task_states import Event
from scaler.ids import ClientId, GraphId, ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.message import message
from scaler.wire.messages.capabilities import Capabilities
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

SUBMITTED = Event("submitted")  # the first of each task, before all those of the table
SEEN = Event("seen")  # nothing happened: somebody has asked for the task
BROKE = Event("broke")  # the task's actor raised, which no table foresees: the task has ended

Role = NewType("Role", str)
CLIENT = Role("client")
NESTED_CLIENT = Role("client in a task")
AGENT = Role("agent")

Departure = NewType("Departure", str)
LEFT = Departure("left")  # it said goodbye
SILENT = Departure("silent")  # it said nothing for its time-out
CUT = Departure("cut")  # its connection was lost, and it did not come back
SENT_AWAY = Departure("sent away")  # the scheduler shuts down, or no worker can run the client's functions
PROCESSOR_ENDED = Departure("processor ended")  # that of a client in a task
FAILED = Departure("failed")  # something raised in the scheduler; the peer is asked for a new hello


@message
class TaskMoved:
    """A task changed its state. Those that were submitted, assigned and finished are told only if they are followed."""

    task: ActorRef
    """its actor: a task that a client submits again under the same id is another one"""
    spec: Task
    client_id: ClientId
    event: Event
    """what happened: one of `task_states`, or `SUBMITTED`, or `BROKE`"""
    state: str
    """the new state, in the words of monitors: `task_states.shown_state`"""
    attempt: int
    """the attempt that it happened to; an attempt is assigned at most once, and a later one has a larger number"""
    worker: ActorRef | None
    """the worker that had this attempt"""
    reason: str
    """a sentence, if there is one"""
    result: RunResult | None = None
    """of the run that ended with it, if one did"""
    graph_id: GraphId | None = None
    """of its graph, if it is in one"""
    owner: str = ""
    """whose task it is; of one that a task has submitted: whose that was; empty: nobody in particular"""
    client_label: str = ""
    """what the client calls itself, outside of tasks, that it is for"""


@message
class PeerIdentity:
    """What a peer says of itself in its hello."""

    peer_id: bytes
    package_version: str
    python_version: str
    worker_names: tuple[str, ...] = ()
    capabilities: Capabilities = ()
    """the resources of an agent's node, and how much of each"""
    label: str = ""
    """what a client calls itself: who and where"""
    named_only: bool = False
    """whether an agent's workers run named functions only"""
    owner: str = ""
    """to whom it belongs, which it has proved; empty: nobody in particular"""
    takes_rows: bool = False
    """whether an agent takes tasks of many rows"""


@message
class PeerJoined:
    """A peer was welcomed. `session`: its actor; `workers`: the actors of those of an agent's workers that have begun,
    in the order of names; news of the others follows.
    """

    session: ActorRef
    role: Role
    identity: PeerIdentity
    workers: tuple[ActorRef, ...]


@message
class PeerChanged:
    """Another number of the workers of an agent takes tasks now. The identity names these; `workers` are new ones."""

    session: ActorRef
    identity: PeerIdentity
    names: tuple[str, ...]
    workers: tuple[ActorRef, ...]


@message
class PeerDisconnected:
    """The connection of a peer was lost; it may come back on another one."""

    session: ActorRef
    reason: str


@message
class PeerReconnected:
    """A peer said hello again, on another connection, and goes on where it was."""

    session: ActorRef


@message
class PeerLeft:
    """A peer is gone for good, and an agent's workers with it."""

    session: ActorRef
    role: Role
    identity: PeerIdentity
    departure: Departure
    reason: str


@message
class PeerRefused:
    """A hello was answered with no."""

    role: Role
    identity: PeerIdentity
    reason: str


@message
class PartRestarted:
    """A part of the scheduler failed, and is started again."""

    part: str
    reason: str


@message
class ObjectStored:
    """An object is known that was not. The size is 0 while its client keeps the bytes."""

    object_id: ObjectId
    owner: ClientId | None
    name: str
    size_bytes: int


@message
class ObjectFilled:
    """The bytes of an object, which its client had kept until now, have come."""

    object_id: ObjectId
    size_bytes: int


@message
class ObjectGone:
    """An object is forgotten: no client holds it and no task uses it."""

    object_id: ObjectId


class Events:
    """The door. Senders check `listener` or `followed`, and make the event only if it is not None."""

    __slots__ = ("ended", "followed", "listener", "of_graphs", "of_objects")

    def __init__(self) -> None:
        self.listener: ActorRef | None = None
        self.followed: Container[TaskId] | None = None
        """the tasks whose usual moves are told; asked at each of them, so it may grow and shrink"""
        self.of_objects: ActorRef | None = None
        """the listener, if it wants to hear of objects"""
        self.of_graphs: ActorRef | None = None
        """the monitor, while it shows graphs: it is told of their ends"""
        self.ended = [0] * len(TaskStatus)
        """how many tasks have ended, by status: counted by the tasks, always"""

    def listen(self, listener: ActorRef, followed: Container[TaskId] | None = None, wants_objects: bool = True) -> None:
        """Report to `listener` from now on, and only to it. May be called again to follow other tasks.

        Args:
            listener: the address of an actor; if it may fail, that of a supervisor's child.
            followed: the tasks whose usual moves are reported too: a set of ids, `EVERY_TASK`, or any container of ids.
            wants_objects: whether it is told of objects.
        """
        self.listener, self.followed = listener, followed
        self.of_objects = listener if wants_objects else None

    def stop(self) -> None:
        """Stop reporting."""
        self.listener = self.followed = self.of_objects = None


class _EveryTask(Container[TaskId]):
    def __contains__(self, _task_id: object) -> bool:
        return True


EVERY_TASK: Container[TaskId] = _EveryTask()
"""To follow all tasks. That costs a third of what the tasks themselves cost in the scheduler."""
