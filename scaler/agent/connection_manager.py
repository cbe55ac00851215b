"""ConnectionManager: the agent's successive connections to its scheduler, from the first hello to the goodbye.

A `ConversationState`, which clients use too (`scaler/peer`), decides when to connect, to send a hello or to give up.
Before the welcome, only the hello is sent. All other messages belong to the link (`link.py`), which owns this object.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import cloudpickle

from scaler.agent.messages import LinkLost, LinkUnreadable
from scaler.agent.session_state import SessionState
from scaler.ids import NO_ID, random_id
from scaler.kit import Actor, Timer
from scaler.message import message
from scaler.peer import states
from scaler.peer.conversation_state import TRIES_MOST, ConversationState
from scaler.peer.states import Action, Event
from scaler.peer.times import Patience
from scaler.settings import ClusterConfig
from scaler.transport.lookup import Lookup
from scaler.version import __version__
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    RETURNING,
    HelloReply,
    HelloRequest,
)
from scaler.wire.messages.worker import (
    DisconnectRequest,
    DisconnectResponse,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
    WorkerHello,
)
from scaler.wire.session.too_large import NO_LIMIT

if TYPE_CHECKING:
    from scaler.agent.edge import AgentEdge

logger = logging.getLogger(__name__)

_SENDING = (states.CONNECTED, states.DISCONNECTED, states.GREETING)
ROUND_TRIP_US_MOST = 2**32 - 1
"""The largest round-trip time that is reported, 71 minutes. A longer one, as after a stop, is reported as this."""


@message
class ConnectionDue:
    """A timer of the conversation has fired: for a heartbeat, an answer, or the next attempt to connect."""


@message
class AbsenceDue:
    """By timer: log that there is no scheduler, unless a scheduler has answered since the timer was set."""

    since: float


LOG_AFTER_SECONDS = 3.0
LOG_EVERY_SECONDS = 30.0


class ConnectionManager:
    """Sends the hellos, heartbeats and goodbyes of an agent, as a part of the link.

    Args:
        end: called once with the exit code when the agent must end.
        link: the actor to which this object belongs.

    Attributes:
        mail: the handler of each message type that the link passes on.
    """

    round_trip_us = 0

    _timer: Timer | None = None
    _timer_at = 0.0
    _absent_since: float | None = None
    """when the scheduler was lost; None while there is a scheduler"""

    _exit_code = 0

    _refused_because = ""
    """why the scheduler has refused the last hello; empty after a welcome"""

    _agents = 0

    _reply_acknowledged = 0
    """how many messages of this session the scheduler had received when it sent the welcome"""

    def __init__(
        self,
        edge: AgentEdge,
        config: ClusterConfig,
        names: tuple[str, ...],
        agent_token: bytes,
        session_state: SessionState,
        end: Callable[[int], None],
        capabilities: str,
        link: Actor,
        takes_rows: bool = False,
        text_hash: int = 0,
    ) -> None:
        self._edge = edge
        self._config = config
        self._names = names
        self._session_state = session_state
        self._end = end
        self._agent_id = random_id()
        self._agent_token = agent_token
        self._capabilities = capabilities
        self._takes_rows, self._text_hash = takes_rows, text_hash
        self._link, self._now, self._schedule = link, link.now, link.schedule
        self.conversation = ConversationState(
            Patience(config.heartbeat_interval_seconds, config.death_timeout_seconds), lambda: True
        )
        self._lookup = Lookup(config.endpoint, partial(logger.warning, "%s. The cluster keeps trying"))
        self._actions = self._by_action()
        self.mail: dict[type, Callable[[Any], None]] = {
            ConnectionDue: self._check_timers,
            AbsenceDue: self._absence_due,
            LinkLost: self._link_lost,
            LinkUnreadable: self._link_unreadable,
            Batch[HelloRequest]: self._hello_requested,
            Batch[HelloReply]: self._hello_answered,
            Batch[WorkerHeartbeatEcho]: self._echo,
            Batch[DisconnectResponse]: self._disconnected,
        }

    def _by_action(self) -> dict[Action, Callable[[str], None]]:
        return {
            states.NOTHING: _do_nothing,
            states.OPEN: self._open,
            states.HELLO: self._send_hello,
            states.RESUME: self._resume,
            states.START_OVER: self._start_over,
            states.HEARTBEAT: self._send_heartbeat,
            states.CLOSE: self._hang_up,
            states.SEEK: self._seek,
            states.EXPIRE: self._expire,
            states.GIVE_UP: self._give_up,
            states.GOODBYE: self._send_goodbye,
            states.END: self._finish,
        }

    def start(self) -> None:
        self._start_absence()
        self._check_timers(ConnectionDue())

    # The conversation

    def happened(self, event: Event, reason: str = "") -> None:
        self._do(self.conversation.happened(event, self._now()), reason)

    def _do(self, action: Action, reason: str = "") -> None:
        self._actions[action](reason)
        next_at = self.conversation.next_at
        if self._timer is None or next_at < self._timer_at:
            self._set_timer(next_at)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._schedule(max(0.0, at - self._now()), ConnectionDue()) if at < inf else None

    def _check_timers(self, _due: ConnectionDue) -> None:
        now = self._now()
        while (action := self.conversation.look(now)) is not states.NOTHING:
            self._actions[action]("the scheduler is silent")
        self._set_timer(self.conversation.next_at)

    # The actions of the conversation state

    def _open(self, _text: str) -> None:
        self._edge.connect(self._link.actor_ref)
        self._lookup.begin()
        self.happened(states.OPENED)

    def _send_hello(self, _text: str) -> None:
        versions = (PROTOCOL_VERSION, __version__, platform.python_version(), cloudpickle.__version__)
        names, ledger = ",".join(self._names), self._session_state.ledger
        own = (self._agent_id, names, ledger.held(), self._agent_token)
        resumes = RETURNING if self.conversation.scheduler_id != NO_ID else 0
        hello = WorkerHello(*versions, *own, resumes, agents=self._agents, capabilities=self._capabilities)
        closed, takes_rows = self._session_state.closed or 0, int(self._takes_rows)
        hello = replace(hello, closed=closed, takes_rows=takes_rows, text_hash=self._text_hash)
        self._edge.send_hello(replace(hello, held_owners=ledger.owners_of_held()))

    def _resume(self, version: str) -> None:
        self._note_up(version)
        self._edge.resume(self._reply_acknowledged)

    def _start_over(self, version: str) -> None:
        has_ended = self.conversation.has_other_scheduler
        in_transit = self._edge.session.pipe.on_their_way() if has_ended else ()
        self._edge.begin()
        self._note_up(version)
        self._edge.send(self._session_state.start_over(in_transit))

    def _note_up(self, version: str) -> None:
        logger.info("link to %s up: scheduler %s", self._config.endpoint, version)
        self._absent_since = None
        self._refused_because = ""

    def _send_heartbeat(self, _text: str) -> None:
        self._edge.send_unnumbered(WorkerHeartbeat(int(self._now() * 1e9)))

    def _hang_up(self, reason: str) -> None:
        self._note_down(reason)
        self._edge.hang_up()

    def _seek(self, reason: str) -> None:
        self._refused_because = ""  # the scheduler that refused is lost
        self._note_down(reason)
        self._edge.set_aside()

    def _note_down(self, reason: str) -> None:
        level = logging.WARNING if self._absent_since is None else logging.DEBUG
        logger.log(level, "link to %s down: %s", self._config.endpoint, reason)
        self._start_absence()

    def _expire(self, _text: str) -> None:
        endpoint, seconds = self._config.endpoint, self._config.death_timeout_seconds
        if self._refused_because:
            self._exit_code = 1
            logger.error(
                "%g s without a scheduler: the cluster ends. %s refuses this cluster: %s",
                seconds,
                endpoint,
                self._refused_because,
            )
        else:
            why = f" ({self._lookup.problem})" if self._lookup.problem else ""
            logger.warning("no scheduler at %s for %g s%s: the cluster ends", endpoint, seconds, why)
        self.happened(states.LEAVE, "there was no answer for too long")

    def _give_up(self, reason: str) -> None:
        self._hang_up(reason)
        logger.error(
            "%d messages in a row from %s could not be read: the cluster ends. Does a scheduler of the same version "
            "listen there? Is there a proxy in between?",
            TRIES_MOST,
            self._config.endpoint,
        )
        self._exit_code = 1
        self.happened(states.LEAVE)

    def _send_goodbye(self, reason: str) -> None:
        self._edge.send([DisconnectRequest(reason)])

    def _finish(self, _text: str) -> None:
        self._end(self._exit_code)

    # Log lines while there is no scheduler

    def _start_absence(self) -> None:
        if self._absent_since is None:
            self._absent_since = self._now()
            self._schedule(LOG_AFTER_SECONDS, AbsenceDue(self._absent_since))

    def _absence_due(self, due: AbsenceDue) -> None:
        if due.since != self._absent_since:
            return
        self._schedule(LOG_EVERY_SECONDS, due)
        reason = self._refused_because or self._lookup.problem
        logger.warning(
            "no scheduler has %s at %s for %.0f s. %s The cluster keeps trying, and ends after %g s without one",
            "accepted this cluster" if self._refused_because else "answered",
            self._config.endpoint,
            self._now() - due.since,
            f"The reason: {reason}."
            if reason
            else "Is that its address, is it running, and does the network let this machine reach it?",
            self._config.death_timeout_seconds,
        )

    # What happens

    def _link_lost(self, lost: LinkLost) -> None:
        if not lost.is_locked_out or self.conversation.state is not states.GREETING:
            self.happened(states.CONNECTION_LOST, lost.reason)
            return
        action = self.conversation.refused(lost.by_scheduler, self._now())
        if self.conversation.state is states.ENDED:
            logger.error("the cluster ends: %s", lost.reason)
            self._exit_code = 1
        else:
            self._warn_of_other_program(lost.reason)
        self._do(action, lost.reason)

    def _warn_of_other_program(self, reason: str) -> None:
        """Log, once for each reason, that another program seems to have taken the scheduler's address."""
        if reason != self._refused_because:
            self._refused_because = reason
            text = "another program answers at %s, or its scheduler has changed: %s. The cluster keeps trying for %g s"
            logger.warning(text, self._config.endpoint, reason, self._config.death_timeout_seconds)

    def _link_unreadable(self, unreadable: LinkUnreadable) -> None:
        if self.conversation.state is states.GREETING and self.conversation.scheduler_id != NO_ID:
            self._warn_of_other_program(unreadable.reason)
        self.happened(states.UNREADABLE, unreadable.reason)

    def _hello_requested(self, requests: Batch[HelloRequest]) -> None:
        self.happened(states.HELLO_REQUESTED, f"the scheduler asks for a hello: {requests[0].reason}")

    def _hello_answered(self, replies: Batch[HelloReply]) -> None:
        reply = replies[0]
        if self.conversation.state is not states.GREETING:
            return
        if reply.accepted:
            is_resumed = self._edge.session.may_resume(reply.resumed)
            self._reply_acknowledged = reply.heard
            self._session_state.ledger.value_bytes = reply.value_bytes or NO_LIMIT
            dead_after_seconds = reply.timeout_milliseconds / 1000
            action = self.conversation.welcomed(reply.scheduler_id, is_resumed, self._now(), dead_after_seconds)
            self._do(action, reply.package_version)
        else:
            self._refused(reply.reason)

    def _refused(self, reason: str) -> None:
        """Log a refusal and retry: another scheduler may accept the hello, or this one once other workers have left."""
        if reason != self._refused_because:
            self._refused_because = reason
            logger.error(
                "the scheduler at %s refuses this cluster, which keeps trying: %s", self._config.endpoint, reason
            )
        self.happened(states.CONNECTION_LOST, f"refused: {reason}")

    def _echo(self, echos: Batch[WorkerHeartbeatEcho]) -> None:
        if self.is_up():
            self._agents = echos[-1].agents
            if echos[-1].value_bytes:
                self._session_state.ledger.value_bytes = echos[-1].value_bytes
            if echos[-1].sent_ns:  # else the echo only probes the connection
                round_trip_us = int(self._now() * 1e6) - echos[-1].sent_ns // 1000
                self.round_trip_us = min(max(0, round_trip_us), ROUND_TRIP_US_MOST)

    def is_up(self) -> bool:
        """Record that the scheduler is alive. Return whether the present state allows a received item to be handled.

        An item that arrived before the loss of its connection counts as received, so it must not be dropped.
        """
        if self.conversation.state is states.CONNECTED:
            self.conversation.heard()
            return True
        return (
            self.conversation.state in (states.DISCONNECTED, states.GREETING)
            and self.conversation.scheduler_id != NO_ID
        )

    def send(self, items: Sequence[Any]) -> None:
        """Send items on this connection, or on the next one if the session resumes. After a goodbye, drop the items."""
        if self.conversation.state in _SENDING:
            self._edge.send(items)

    def _disconnected(self, responses: Batch[DisconnectResponse]) -> None:
        logger.info("the scheduler disconnects this cluster: %s", responses[0].reason)
        self.happened(states.GOODBYE_RECEIVED)


def _do_nothing(_text: str) -> None:
    pass
