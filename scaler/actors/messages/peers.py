"""Messages about peers and their sessions."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.actors.insight.events import Departure, PeerIdentity
from scaler.actors.peers.owners import Owner
from scaler.actors.peers.peer import Peer
from scaler.ids import Connection, ObjectId
from scaler.keys.allowed import AllowedKey
from scaler.kit import ActorRef
from scaler.message import message
from scaler.process.report import Report
from scaler.wire.messages.client import ClientHello, InfoRequest
from scaler.wire.messages.worker import RunTask, WorkerHello


@message
class ClientArrived:
    """edge -> acceptor: a client sent a hello."""

    connection: Connection
    hello: ClientHello
    permit: AllowedKey | None = None
    """the key of the client; None where no key is required"""
    owner: Owner | None = None
    """the owner of the connection; None without an owner"""
    is_in_parent: bool = False
    """whether the client is in the process that started this scheduler; the scheduler ends with that process"""


@message
class AgentArrived:
    """edge -> acceptor: an agent sent a hello."""

    connection: Connection
    hello: WorkerHello
    permit: AllowedKey | None = None
    owner: Owner | None = None
    """this and `permit` as in `ClientArrived`"""


@message
class KeysEnded:
    """edge -> acceptor: these public keys are no longer valid; end their sessions."""

    keys: frozenset[str]


@message
class Resumed:
    """acceptor -> session: the peer has reconnected, on its connection with this number. Unless the session resumes
    (`goes_on`), unacknowledged messages are lost, and `held` is what the agent still has.
    """

    connection_number: int
    held: bytes
    goes_on: bool = False


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
    """agent session -> nested session: the processor of your client has ended, or its state is unknown now."""


@message
class ConnectionLost:
    """edge -> session: the connection with this number was lost, or its peer sent invalid data. The peer may
    reconnect.
    """

    connection_number: int
    reason: str
    unsent: Sequence[RunTask] = ()
    """orders that have certainly not been sent, and were taken back: other workers may run these tasks"""
    is_surely_closed: bool = False
    """whether the peer must have closed it: only the two ends can, and this end has not"""


@message
class CheckSilence:
    """session -> itself, by timer: check whether the peer is still connected. `departure`: how it left, if not."""

    departure: Departure
    is_again: bool = False
    """whether this is the second check, after a first one that was late"""


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
    """client session -> census: a client asks about peers or objects, or sends a command."""

    peer: Peer
    requests: Sequence[InfoRequest]


@message
class WorkersArrived:
    """acceptor -> census: an agent has connected or reconnected, or has more workers than before."""


@message
class WorkersChanged:
    """agent session -> acceptor: the agent has more or fewer workers now."""

    peer: Peer
    identity: PeerIdentity


@message
class AnswerInfo:
    """census -> itself: all parts have reported their counts; answer the requests of this turn."""


@message
class DrainWorker:
    """agent session -> worker proxy: the agent will leave, and takes no new tasks."""


@message
class CloseWorker:
    """agent session -> worker proxy: take no new tasks until `OpenWorker`, and recall the waiting ones."""


@message
class OpenWorker:
    """agent session -> worker proxy: take tasks again."""


@message
class StopWorker:
    """agent session -> worker proxy: the agent has left or is lost. `was_lost`: it is lost, so running tasks are
    suspect. `values`: large values that were being sent to it. If there are any, they are suspect instead, with the
    tasks that need them.
    """

    was_lost: bool
    unacknowledged: Sequence[RunTask] = ()
    """orders whose arrival is unknown: their tasks are not suspect"""
    values: frozenset[ObjectId] = frozenset()
    awaited: frozenset[ObjectId] = frozenset()
    """objects that were not sent to it: tasks that need one have not started, and are not suspect"""


@message
class ReportStatistics:
    """tree -> its parts -> sessions -> graphs and worker proxies, in the urgent lane: add your counts to the report."""

    report: Report


@message
class DismissClient:
    """acceptor -> client session: dismiss the client, because no worker can run its functions."""

    reason: str


@message
class StopAgent:
    """acceptor -> agent session: dismiss the agent, because the scheduler shuts down."""

    reason: str
