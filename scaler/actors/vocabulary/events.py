"""Events: what happens in the scheduler, reported to one listener: a monitor, metrics or an audit.

Called by tasks, sessions, the acceptor, the object store and the supervisor of the tree. The listener, an actor,
receives events as ordinary mail, in the order in which they happened. docs/reference/events.md describes how to write a
listener.

Without a listener an event costs one comparison and allocates nothing. The usual three moves of a task (submitted,
assigned, succeeded) are reported only for tasks that the listener follows. All other moves are reported for every task.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NewType

from scaler.actors.vocabulary.function_ends import FunctionEnds
from scaler.actors.vocabulary.task_states import Event
from scaler.ids import ClientId, ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.message import message
from scaler.wire.messages.capabilities import Capabilities
from scaler.wire.messages.client import Task
from scaler.wire.messages.worker import RunResult

SUBMITTED = Event("submitted")  # the first event of each task, before those of the table
SEEN = Event("seen")  # no change: a viewer asked for the task
BROKE = Event("broke")  # the task's actor raised, which is not in the table: the task has ended
NEVER_STARTED = Event("never started")  # the task ended before it had an actor; the only event of such a task

Role = NewType("Role", str)
CLIENT = Role("client")
NESTED_CLIENT = Role("client in a task")
AGENT = Role("agent")

Departure = NewType("Departure", str)
LEFT = Departure("left")  # it ended its session in order
SILENT = Departure("silent")  # it was silent for its time-out
CUT = Departure("cut")  # its connection was lost, and it did not reconnect
SENT_AWAY = Departure("sent away")  # the scheduler shuts down, or no worker can run the client's functions
PROCESSOR_ENDED = Departure("processor ended")  # the processor of a client in a task
FAILED = Departure("failed")  # an actor of the scheduler raised; the peer is asked for a new hello


@message
class TaskMoved:
    """A change of the state of a task. Submission, assignment and success are reported only for followed tasks."""

    task: ActorRef
    """the actor of the task: a task that is resubmitted with the same id has a new actor; the session or job of a task
    that never started
    """
    spec: Task
    client_id: ClientId
    event: Event
    """what happened: an event of `task_states`, `SUBMITTED`, `BROKE` or `NEVER_STARTED`"""
    state: str
    """the new state of the task, in the words of monitors: `task_states.shown_state`"""
    attempt: int
    """the attempt of the event. At most one worker gets an attempt, and later attempts have larger numbers"""
    worker: ActorRef | None
    """the worker that had the attempt; None if the attempt had no worker"""
    reason: str
    """a sentence that says why the task moved; may be empty"""
    result: RunResult | None = None
    """the result of the run that ended with this event; None if no run ended"""
    owner: str = ""
    """the name of the owner of the task; a nested task has the owner of its parent; empty if the owner has no name"""
    client_label: str = ""
    """the label of the root client of the task"""
    age_seconds: float = 0.0
    """only with `SEEN`: the time since the submission of the task, within about two seconds; 0 if unknown"""


@message
class PeerIdentity:
    """The description of a peer in its hello, with the owner that the peer's connection has proved."""

    peer_id: bytes
    package_version: str
    python_version: str
    worker_names: tuple[str, ...] = ()
    capabilities: Capabilities = ()
    """the resources of an agent's node, each with its amount"""
    label: str = ""
    """how a client describes itself: program, user and host"""
    named_only: bool = False
    """whether an agent's workers run named functions only"""
    owner: str = ""
    """the name of the owner; empty if the owner has no name"""
    takes_rows: bool = False
    """whether an agent accepts ranges, which are tasks of many rows"""


@message
class PeerJoined:
    """A new session of a peer. `PeerChanged` reports workers that start later.

    Attributes:
        session: the actor of the session.
        workers: the actors of an agent's started workers, in the order of their names; empty for a client.
    """

    session: ActorRef
    role: Role
    identity: PeerIdentity
    workers: tuple[ActorRef, ...]


@message
class PeerChanged:
    """A change of the number of workers of an agent.

    Attributes:
        identity: the present description of the agent, with the names of its present workers.
        names: the names of the new workers, whose actors are `workers`.
    """

    session: ActorRef
    identity: PeerIdentity
    names: tuple[str, ...]
    workers: tuple[ActorRef, ...]


@message
class PeerDisconnected:
    """The loss of the connection of a peer, which may resume its session on another connection."""

    session: ActorRef
    reason: str


@message
class PeerReconnected:
    """The resumption of the session of a peer on another connection."""

    session: ActorRef


@message
class PeerLeft:
    """The end of the session of a peer. If the peer is an agent, its workers have left too."""

    session: ActorRef
    role: Role
    identity: PeerIdentity
    departure: Departure
    reason: str


@message
class PeerRefused:
    """The refusal of the hello of a peer."""

    role: Role
    identity: PeerIdentity
    reason: str


@message
class PartRestarted:
    """The restart of a failed part of the scheduler."""

    part: str
    reason: str


@message
class ObjectStored:
    """A new object. `size_bytes` is 0 if the client has kept the bytes."""

    object_id: ObjectId
    owner: ClientId | None
    name: str
    size_bytes: int


@message
class ObjectFilled:
    """The arrival of the bytes of an object. Before, the client kept them."""

    object_id: ObjectId
    size_bytes: int


@message
class ObjectGone:
    """The removal of an object that no client holds and no task uses."""

    object_id: ObjectId


class Events:
    """The channel to the listener. Senders create an event only if a listener receives it.

    Args:
        name_of: returns the name of a function; empty if the function is unknown.
    """

    __slots__ = ("ended_of", "followed", "listener", "of_graphs", "of_objects")

    def __init__(self, name_of: Callable[[ObjectId], str] = lambda _function_id: "") -> None:
        self.listener: ActorRef | None = None
        self.followed: Container[TaskId] | None = None
        """tasks for which all moves are reported. The container is read at each move, so the content may change"""
        self.of_objects: ActorRef | None = None
        """the listener to events of objects; None if events of objects are not reported"""
        self.of_graphs: ActorRef | None = None
        """the monitor, to which the ends of graphs are reported; None unless a viewer watches graphs"""
        self.ended_of = FunctionEnds(name_of)
        """the number of ended tasks by function and status, counted also without a listener"""

    @property
    def ended(self) -> list[int]:
        """The number of ended tasks of all functions by status."""
        return self.ended_of.by_status

    def listen(self, listener: ActorRef, followed: Container[TaskId] | None = None, wants_objects: bool = True) -> None:
        """Report events to `listener`, and to no other actor. May be called again to follow other tasks.

        Args:
            listener: the address of an actor. If the actor may fail, make it the child of a supervisor.
            followed: tasks for which all moves are reported: a set of ids, `EVERY_TASK`, or any container of ids.
            wants_objects: whether events of objects are reported.
        """
        self.listener, self.followed = listener, followed
        self.of_objects = listener if wants_objects else None

    def stop(self) -> None:
        """Stop reporting events to the listener."""
        self.listener = self.followed = self.of_objects = None


class _EveryTask(Container[TaskId]):
    def __contains__(self, _task_id: object) -> bool:
        return True


EVERY_TASK: Container[TaskId] = _EveryTask()
"""The `followed` of `Events.listen` that selects all tasks. Then each task costs the scheduler a third more."""
