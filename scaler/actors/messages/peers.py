"""Peers that come and go, and their sessions: who says what to whom."""

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
    """edge -> acceptor: a client said hello."""

    connection: Connection
    hello: ClientHello
    permit: AllowedKey | None = None
    """the key with which it was let in; None: nobody needs one here"""
    owner: Owner | None = None
    """to whom it belongs; None: nobody in particular"""
    is_in_parent: bool = False
    """whether it is in the process that has started this scheduler, which ends with that process"""


@message
class AgentArrived:
    """edge -> acceptor: an agent said hello."""

    connection: Connection
    hello: WorkerHello
    permit: AllowedKey | None = None
    owner: Owner | None = None
    """both as of a client"""


@message
class KeysEnded:
    """edge -> acceptor: these public keys are no longer valid; end the sessions that they began."""

    keys: frozenset[str]


@message
class Resumed:
    """acceptor -> session: your peer is back, on its connection with this number. If the session does not go on where
    it was, `held` is what an agent still has, and what was said and not heard is lost.
    """

    visit: int
    held: bytes
    goes_on: bool = False


@message
class EndSession:
    """acceptor or job keeper -> session: your peer cannot be talked to, or asks too much; end."""

    reason: str


@message
class NestedArrived:
    """acceptor -> agent session: this is the session of a client inside one of your processors."""

    processor: int
    session: ActorRef


@message
class ItemsWaiting:
    """outbox -> session: something is on its way to your peer."""


@message
class EndNested:
    """agent session -> nested session: the processor of your client has ended, or its state is unknown now."""


@message
class ConnectionLost:
    """edge -> session: the connection with this number is gone, or its peer talks garbage. It may come back on another
    one.
    """

    visit: int
    reason: str
    unsent: Sequence[RunTask] = ()
    """orders that have certainly not left, and were taken back: others may run the tasks"""
    is_surely_closed: bool = False
    """nothing but its two ends could end it, and this one has not"""


@message
class CheckSilence:
    """session -> itself, by timer: is the peer still there? If not, this is how it went."""

    departure: Departure
    is_again: bool = False
    """the second look, after one that came late"""


@message
class SessionEnded:
    """session -> acceptor: my peer is gone for good."""

    peer: Peer


@message
class ShutdownRequested:
    """client session -> acceptor: my client wants everything to end."""

    peer: Peer


@message
class InfoRequested:
    """client session -> census: my client asks who is there."""

    peer: Peer
    requests: Sequence[InfoRequest]


@message
class WorkersArrived:
    """acceptor -> census: an agent is here, or is back, or has more workers than before."""


@message
class WorkersChanged:
    """agent session -> acceptor: my agent has more workers now, or fewer."""

    peer: Peer
    identity: PeerIdentity


@message
class AnswerInfo:
    """census -> itself: all have been counted, answer those who asked in this turn."""


@message
class DrainWorker:
    """agent session -> worker proxy: your agent will leave, and takes no new tasks."""


@message
class CloseWorker:
    """agent session -> worker proxy: take no new tasks until you are opened, and have those given back that wait."""


@message
class OpenWorker:
    """agent session -> worker proxy: take tasks again."""


@message
class StopWorker:
    """agent session -> worker proxy: your agent is gone. `was_lost`: unexpectedly, so the running tasks are suspect, or
    the `values` so large that they may have ended it, which were on their way to it: then only these are.
    """

    was_lost: bool
    unheard: Sequence[RunTask] = ()
    """orders of which it is not known that they have arrived: these tasks are not suspect"""
    values: frozenset[ObjectId] = frozenset()
    awaited: frozenset[ObjectId] = frozenset()
    """objects that have not left for it: what needs one of them has not begun, and is not suspect"""


@message
class ReportStatistics:
    """tree -> its parts -> sessions -> graphs and worker proxies, in the urgent lane: add your counts to the report."""

    report: Report


@message
class DismissClient:
    """acceptor -> client session: send your client away, no worker can run its functions."""

    reason: str


@message
class StopAgent:
    """acceptor -> agent session: send your agent away, the scheduler shuts down."""

    reason: str
