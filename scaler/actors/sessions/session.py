"""Session: the common part of the sessions of clients and agents: a connection that may be replaced, and an end.

A peer is gone when it says so, when it is silent for its time-out, or when its connection is lost and it does not come
back on another one within a few seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, ClassVar

from scaler.actors.insight.events import (
    AGENT,
    CUT,
    FAILED,
    SILENT,
    Departure,
    PeerDisconnected,
    PeerIdentity,
    PeerJoined,
    PeerLeft,
    PeerReconnected,
    Role,
)
from scaler.actors.messages.peers import CheckSilence, ConnectionLost, EndSession, Resumed, SessionEnded
from scaler.actors.peers.peer import Peer
from scaler.actors.services import Services
from scaler.actors.sessions.refusals import answers_to
from scaler.actors.slices import NextSlice, Slices
from scaler.ids import public_id
from scaler.keys.allowed import KEY_SHOWN
from scaler.kit import Actor, ActorRef, MessageRefused, Timer, handles
from scaler.wire.messages.common import HelloRequest

logger = logging.getLogger(__name__)


SILENT_LEAST_SECONDS = 5.0
"""A connection that ends after this silence and three missing heartbeats may have been ended by the network, and not by
its peer: the peer may live, and has as long to come back as a silent one."""

REFUSED_MOST = 10
"""Number of messages that shared actors could not handle after which a session ends."""

LATE_SECONDS, LATE_MAIL_SECONDS = 0.01, 0.1
"""A timer that is later than the first may come after a stop of the process. What peers have said meanwhile may need
the second to get through the socket."""


class Session(Actor):
    """One peer.

    Args:
        identity: the id in its hello.
        peer: whom it speaks to, now or after a while.
        title: its name in the log.
        timeout_seconds: how long it may be silent.
        come_back_seconds: how long it may be without a connection.
    """

    role: ClassVar[Role]

    def __init__(
        self,
        identity: PeerIdentity,
        title: str,
        peer: Peer,
        services: Services,
        timeout_seconds: float,
        come_back_seconds: float,
    ) -> None:
        self._identity = identity
        self._title = title
        self._peer = peer
        self._services = services
        self._outbox = services.outbox
        self._timeout_seconds = timeout_seconds
        self._come_back_seconds = min(come_back_seconds, timeout_seconds)
        self._last_heard = 0.0
        self._last_beat_ns = 0
        """when the peer has said its last heartbeat, by its own clock"""
        self._first_beat_seconds = self._beat_seconds = 0.0
        """the shortest time between two heartbeats: a longer one says that the peer was stopped, and so may the first
        one, alone; 0: not known yet"""
        self._silence_timer: Timer | None = None
        self._n_refused = 0
        """number of its messages that shared actors could not handle"""

    def on_start(self) -> None:
        self._last_heard = self.now()
        self._check_silence_in(self._timeout_seconds, SILENT)

    def _tell_came(self, workers: tuple[ActorRef, ...] = ()) -> None:
        self._say("began")
        listener = self._services.events.listener
        if listener is not None:
            listener.send(PeerJoined(self.actor_ref, self.role, self._identity, workers))

    def _heard_beat(self, sent_ns: int) -> None:
        self._last_heard = self.now()
        if self._last_beat_ns < sent_ns:
            if self._last_beat_ns:
                seconds = (sent_ns - self._last_beat_ns) / 1e9
                if self._first_beat_seconds:
                    self._beat_seconds = min(self._beat_seconds or self._first_beat_seconds, seconds)
                else:
                    self._first_beat_seconds = seconds
            self._last_beat_ns = sent_ns

    def _check_silence_in(self, seconds: float, departure: Departure) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self._silence_timer = self.schedule(seconds, CheckSilence(departure))

    @handles(Resumed)
    def _resumed(self, _resumed: Resumed) -> None:
        self._last_heard = self.now()
        self._check_silence_in(self._timeout_seconds, SILENT)
        if self._services.events.listener is not None:
            self._services.events.listener.send(PeerReconnected(self.actor_ref))

    @handles(ConnectionLost)
    def _connection_lost(self, lost: ConnectionLost) -> None:
        if lost.visit != self._peer.visit:
            return  # it is back already
        heard_at = max(self._last_heard, self._peer.heard_at)
        silent_seconds = self.now() - heard_at
        # What was read just after the scheduler itself was stopped may have arrived at any time meanwhile.
        unseen_seconds = self._services.paused_since(heard_at - LATE_MAIL_SECONDS)
        is_silent = silent_seconds + unseen_seconds > max(SILENT_LEAST_SECONDS, 3 * self._beat_seconds)
        if is_silent and not lost.is_surely_closed:
            seconds, departure = max(0.0, self._timeout_seconds - silent_seconds), SILENT
        else:
            seconds, departure = self._come_back_seconds, CUT
        self._say_cut(lost.reason, seconds)
        self._last_heard = self.now() - self._timeout_seconds + seconds
        self._check_silence_in(seconds, departure)
        if self._services.events.listener is not None:
            self._services.events.listener.send(PeerDisconnected(self.actor_ref, lost.reason))

    @handles(CheckSilence)
    def _check_silence(self, check: CheckSilence) -> None:
        if self._peer.connection:  # anything is news: a heartbeat may come late behind parts of something large
            self._last_heard = max(self._last_heard, self._peer.heard_at)
        left_seconds = self._last_heard + self._timeout_seconds - self.now()
        if left_seconds > 0:
            self._check_silence_in(left_seconds, check.departure)
        elif left_seconds < -LATE_SECONDS and not check.is_again:
            self._silence_timer = self.schedule(LATE_MAIL_SECONDS, CheckSilence(check.departure, is_again=True))
        elif self._peer.is_in_parent and self._peer.connection:
            self._check_silence_in(self._timeout_seconds, check.departure)  # code that holds the GIL may run there
        else:
            logger.log(self._level(), "%s is gone", self._title)
            self._say_lost()
            self._depart(check.departure, "")

    @handles(EndSession)
    def _give_up(self, give_up: EndSession) -> None:
        logger.error("%s is given up: %s", self._title, give_up.reason)
        self._depart(FAILED, give_up.reason)

    @handles(MessageRefused)
    def _message_refused(self, refused: MessageRefused) -> None:
        """Tell the peer; a peer that sends many such messages loses its session."""
        self._n_refused += 1
        error, reason = refused.error, f"the scheduler failed at this request: {refused.error!r}"
        if self._n_refused == 1:
            logger.error("a message of %s cannot be handled: %r", self._title, error, exc_info=error)
        for answer in answers_to(refused.message, reason):
            self._outbox.put(self._peer, answer)
        if self._n_refused == REFUSED_MOST:
            reason = f"{REFUSED_MOST} messages of it cannot be handled, the last one: {error!r}"
            logger.error("%s is given up: %s", self._title, reason)
            self._outbox.put_alone(self._peer, HelloRequest(reason))
            self._depart(FAILED, reason)

    def _depart(self, departure: Departure, reason: str) -> None:
        """The peer is gone, and so is its session."""
        self._tell_went(departure, reason)
        self.stop_now()

    def _say(self, event: str, why: str = "") -> None:
        """Have something kept about it."""
        identity, permit = self._identity, self._peer.permit
        name, number = identity.label or ",".join(identity.worker_names[:1]), public_id(identity.peer_id).hex()
        key = "" if permit is None else permit.public[:KEY_SHOWN]
        about = {"owner": identity.owner, "key": key, "peer": self.role, "name": name, "id": number, "why": why}
        self._services.audit(event, identity.owner, **about)

    def _tell_went(self, departure: Departure, reason: str) -> None:
        self._say("ended", f"{departure}: {reason}" if reason else departure)
        listener = self._services.events.listener
        if listener is not None:
            listener.send(PeerLeft(self.actor_ref, self.role, self._identity, departure, reason))

    def _level(self) -> int:
        """Return how loud its end is said. A program that ends before its hello is answered cannot say goodbye, and has
        said nothing: nobody misses it.
        """
        has_spoken = self.role is AGENT or self._peer.pipe.heard or self._last_beat_ns
        return logging.WARNING if has_spoken else logging.DEBUG

    def _say_cut(self, reason: str, seconds: float) -> None:
        """Log that its connection is lost, and how long it has to come back."""
        logger.log(self._level(), "%s: %s; it has %.3g s to come back", self._title, reason, seconds)

    def _say_lost(self) -> None:
        """Tell a peer, which may live after all, that its session has ended."""

    def on_stop(self) -> None:
        self._leave()

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        self._tell_went(FAILED, repr(error))
        self._leave()

    def _leave(self) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self._services.acceptor.send(SessionEnded(self._peer))


class SessionTeardown(Actor):
    """Tells the tasks, graphs or worker proxies of a session that has ended, a slice at a time, and then ends.

    Args:
        messages: whom to tell what, in this order.
        before: what the session still had to tell them; it goes first.
    """

    def __init__(self, messages: Iterable[tuple[ActorRef, Any]], before: Slices | None = None) -> None:
        self._messages, self._before = messages, before

    def on_start(self) -> None:
        self._slices = Slices(self)
        if self._before is not None:
            self._slices.take_over(self._before, _send, self._messages)
        else:
            self._slices.add(_send, self._messages)
        self._end_if_done()

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        self._slices.go_on()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._slices:
            self.stop_now()


def _send(pair: tuple[ActorRef, Any]) -> None:
    pair[0].send(pair[1])
