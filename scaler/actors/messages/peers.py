"""Messages about peers (clients and agents) and the sessions of peers."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.actors.vocabulary.events import Departure, PeerIdentity
from scaler.actors.vocabulary.hellos import HeldRun
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import Connection, ObjectId
from scaler.keys.allowed import AllowedKey
from scaler.kit import ActorRef
from scaler.message import message
from scaler.process.report import Report
from scaler.wire.messages.client import ClientHello, InfoRequest, TaskResult
from scaler.wire.messages.worker import RunTask, WorkerHello


@message
class ClientArrived:
    """edge -> acceptor: a client sent a hello."""

    connection: Connection
    hello: ClientHello
    permit: AllowedKey | None = None
    """the key of the client; None if no key is required"""
    owner: Owner | None = None
    """the owner of the connection; None for the unnamed owner"""
    is_in_parent: bool = False
    """whether the client is in the process that started this scheduler; the scheduler ends with that process"""


@message
class AgentArrived:
    """edge -> acceptor: an agent sent a hello."""

    connection: Connection
    hello: WorkerHello
    permit: AllowedKey | None = None
    owner: Owner | None = None
    """the owner of the connection; None for the unnamed owner"""


@message
class KeysEnded:
    """edge -> acceptor: these public keys are no longer valid; end the sessions that use them."""

    keys: frozenset[str]


@message
class Resumed:
    """acceptor -> session -> worker proxies: the peer has reconnected, and resumes its pipe."""

    connection_number: int


@message
class StartOver:
    """acceptor -> session -> worker proxies: the peer has reconnected, and starts a new session with a new pipe.

    Attributes:
        held: the runs that an agent has, by its hello.
        is_complete: whether these are all runs; False if there are too many for a hello.
        results: the results that a client has not acknowledged in the last session.
    """

    connection_number: int
    held: Sequence[HeldRun] = ()
    is_complete: bool = True
    results: Sequence[TaskResult] = ()


@message
class EndSession:
    """acceptor or job keeper -> session: end, because of unreadable messages, a revoked key or too many requests."""

    reason: str


@message
class NestedArrived:
    """acceptor -> agent session: this is the session of a client inside one of your processors."""

    processor: int
    session: ActorRef


@message
class ItemsWaiting:
    """outbox -> session: items for your peer are being sent."""


@message
class EndNested:
    """agent session -> nested session: the processor of your client has ended, or is in an unknown state."""


@message
class ConnectionLost:
    """edge -> session: this connection was lost, or the peer sent invalid data. The peer may reconnect."""

    connection_number: int
    reason: str
    unsent: Sequence[RunTask] = ()
    """runs that were withdrawn before they were sent, so other workers may run these tasks"""
    is_surely_closed: bool = False
    """whether the peer itself has certainly closed the connection"""


@message
class CheckSilence:
    """session -> itself, by timer: check whether the peer is lost. If so, end the session. `departure`: the reason."""

    departure: Departure
    is_again: bool = False
    """whether this check repeats an earlier check that was late"""


@message
class SessionEnded:
    """session -> acceptor: the session of this peer has ended."""

    peer: Peer


@message
class ShutdownRequested:
    """client session -> acceptor: a client requests the shutdown of the scheduler and its agents."""

    peer: Peer


@message
class InfoRequested:
    """client session -> census: a client requests information about peers or objects, or sends a command."""

    peer: Peer
    requests: Sequence[InfoRequest]


@message
class WorkersArrived:
    """acceptor -> census: an agent has connected or reconnected, or has more workers than before."""


@message
class WorkersChanged:
    """agent session -> acceptor: the number of the agent's workers has changed."""

    peer: Peer
    identity: PeerIdentity


@message
class AnswerInfo:
    """census -> itself: all actors have reported their counts; answer the requests of this turn."""


@message
class DrainWorker:
    """agent session -> worker proxy: the agent will leave, and takes no new tasks."""


@message
class CloseWorker:
    """agent session -> worker proxy: take no new tasks until `OpenWorker`, and recall tasks that have not started."""


@message
class OpenWorker:
    """agent session -> worker proxy: take tasks again."""


@message
class StopWorker:
    """agent session -> worker proxy: the agent has left or is lost.

    Attributes:
        was_lost: whether the agent is lost, so that tasks that it ran are suspected of having caused the loss.
        values: large values that were being sent to the agent. If any, only tasks that need such a value are suspected.
    """

    was_lost: bool
    unacknowledged: Sequence[RunTask] = ()
    """runs that the agent may not have received, so their tasks are not suspected"""
    values: frozenset[ObjectId] = frozenset()
    awaited: frozenset[ObjectId] = frozenset()
    """objects that were not sent to the agent: tasks that need such an object have not started and are not suspected"""


@message
class ReportStatistics:
    """tree -> all parts -> sessions -> worker proxies, urgent: add your counts to the report."""

    report: Report


@message
class DismissClient:
    """acceptor -> client session: dismiss the client, because no worker can run functions of the client."""

    reason: str


@message
class StopAgent:
    """acceptor -> agent session: dismiss the agent, because the scheduler shuts down."""

    reason: str
