"""Session: the common part of client sessions and agent sessions: the successive connections of a peer, and the end.

A session ends when its peer leaves, is silent for its time-out, or loses its connection and does not reconnect soon.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, ClassVar

from scaler.actors.messages.peers import CheckSilence, ConnectionLost, EndSession, Resumed, SessionEnded
from scaler.actors.sessions.refusals import answers_to
from scaler.actors.slices import NextSlice, Slices
from scaler.actors.vocabulary.events import (
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
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.vocabulary.services import Services
from scaler.ids import public_id
from scaler.keys.allowed import KEY_SHOWN
from scaler.kit import Actor, ActorRef, MessageRefused, Timer, handles
from scaler.wire.messages.common import HelloRequest

logger = logging.getLogger(__name__)


SILENT_LEAST_SECONDS = 5.0
"""If a peer was silent for this time, and for three heartbeat intervals, before its connection was lost, the peer may
still be alive. Then it may take its whole time-out to reconnect.
"""

REFUSED_MOST = 10
"""If shared actors could not handle this number of messages of one peer, its session ends."""

LATE_SECONDS, LATE_MAIL_SECONDS = 0.01, 0.1
"""A timer this many seconds late shows that the process was stopped. Then mail has `LATE_MAIL_SECONDS` to arrive."""


class Session(Actor):
    """The session of one peer.

    Args:
        title: the name of the peer in the log.
        timeout_seconds: how long the peer may be silent.
        come_back_seconds: how long the peer may be disconnected.
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
        self._last_received_at = 0.0
        self._last_beat_ns = 0
        """when the peer sent its last heartbeat, by the clock of the peer"""
        self._first_beat_seconds = self._beat_seconds = 0.0
        """the first (the peer may have been stopped in it) and the shortest interval between heartbeats; 0: unknown"""
        self._silence_timer: Timer | None = None
        self._n_refused = 0

    def on_start(self) -> None:
        self._last_received_at = self.now()
        self._check_silence_in(self._timeout_seconds, SILENT)

    def _report_joined(self, workers: tuple[ActorRef, ...] = ()) -> None:
        self._audit("began")
        listener = self._services.events.listener
        if listener is not None:
            listener.send(PeerJoined(self.actor_ref, self.role, self._identity, workers))

    def _note_heartbeat(self, sent_ns: int) -> None:
        self._last_received_at = self.now()
        self._mark_time()
        if self._last_beat_ns < sent_ns:
            if self._last_beat_ns:
                seconds = (sent_ns - self._last_beat_ns) / 1e9
                if self._first_beat_seconds:
                    self._beat_seconds = min(self._beat_seconds or self._first_beat_seconds, seconds)
                else:
                    self._first_beat_seconds = seconds
            self._last_beat_ns = sent_ns

    def _mark_time(self) -> None:
        """Mark the time, from which ages of tasks are computed."""
        directory = self._services.directory
        directory.attempt_times.mark(directory.next_attempt, self.now())

    def _check_silence_in(self, seconds: float, departure: Departure) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self._silence_timer = self.schedule(seconds, CheckSilence(departure))

    @handles(Resumed)
    def _resumed(self, _resumed: Resumed) -> None:
        self._reconnected()

    def _reconnected(self) -> None:
        self._last_received_at = self.now()
        self._check_silence_in(self._timeout_seconds, SILENT)
        if self._services.events.listener is not None:
            self._services.events.listener.send(PeerReconnected(self.actor_ref))

    @handles(ConnectionLost)
    def _connection_lost(self, lost: ConnectionLost) -> None:
        if lost.connection_number != self._peer.connection_number:
            return  # it has reconnected already
        last_received_at = max(self._last_received_at, self._peer.last_received_at)
        silent_seconds = self.now() - last_received_at
        # Messages that were read just after a stop of the scheduler may have arrived at any time during it.
        unseen_seconds = self._services.paused_since(last_received_at - LATE_MAIL_SECONDS)
        is_silent = silent_seconds + unseen_seconds > max(SILENT_LEAST_SECONDS, 3 * self._beat_seconds)
        if is_silent and not lost.is_surely_closed:
            seconds, departure = max(0.0, self._timeout_seconds - silent_seconds), SILENT
        else:
            seconds, departure = self._come_back_seconds, CUT
        self._log_disconnected(lost.reason, seconds)
        self._last_received_at = self.now() - self._timeout_seconds + seconds
        self._check_silence_in(seconds, departure)
        if self._services.events.listener is not None:
            self._services.events.listener.send(PeerDisconnected(self.actor_ref, lost.reason))

    @handles(CheckSilence)
    def _check_silence(self, check: CheckSilence) -> None:
        if self._peer.connection:  # any message counts: a heartbeat may be late behind parts of a large one
            self._last_received_at = max(self._last_received_at, self._peer.last_received_at)
        left_seconds = self._last_received_at + self._timeout_seconds - self.now()
        if left_seconds > 0:
            self._check_silence_in(left_seconds, check.departure)
        elif left_seconds < -LATE_SECONDS and not check.is_again:
            self._silence_timer = self.schedule(LATE_MAIL_SECONDS, CheckSilence(check.departure, is_again=True))
        elif self._peer.is_in_parent and self._peer.connection:
            self._check_silence_in(self._timeout_seconds, check.departure)  # the parent process may hold the GIL
        else:
            logger.log(self._level(), "%s is lost: it was silent or disconnected for too long", self._title)
            self._notify_lost()
            self._depart(check.departure, "")

    @handles(EndSession)
    def _give_up(self, give_up: EndSession) -> None:
        logger.error("the session of %s is ended: %s", self._title, give_up.reason)
        self._depart(FAILED, give_up.reason)

    @handles(MessageRefused)
    def _message_refused(self, refused: MessageRefused) -> None:
        """Answer the peer whose message a shared actor could not handle. End its session after many such messages."""
        self._n_refused += 1
        error, reason = refused.error, f"the scheduler failed while it handled this request: {refused.error!r}"
        if self._n_refused == 1:
            logger.error("a message of %s cannot be handled: %r", self._title, error, exc_info=error)
        for answer in answers_to(refused.message, reason):
            self._outbox.put(self._peer, answer)
        if self._n_refused == REFUSED_MOST:
            reason = f"{REFUSED_MOST} of its messages could not be handled, the last one: {error!r}"
            logger.error("the session of %s is ended: %s", self._title, reason)
            self._outbox.put_unnumbered(self._peer, HelloRequest(reason))
            self._depart(FAILED, reason)

    def _depart(self, departure: Departure, reason: str) -> None:
        self._report_left(departure, reason)
        self.stop_now()

    def _audit(self, event: str, why: str = "") -> None:
        identity, permit = self._identity, self._peer.permit
        name, number = identity.label or ",".join(identity.worker_names[:1]), public_id(identity.peer_id).hex()
        key = "" if permit is None else permit.public[:KEY_SHOWN]
        about = {"owner": identity.owner, "key": key, "peer": self.role, "name": name, "id": number, "why": why}
        self._services.audit(event, identity.owner, **about)

    def _report_left(self, departure: Departure, reason: str) -> None:
        self._audit("ended", f"{departure}: {reason}" if reason else departure)
        listener = self._services.events.listener
        if listener is not None:
            listener.send(PeerLeft(self.actor_ref, self.role, self._identity, departure, reason))

    def _level(self) -> int:
        """Return the log level for the end of the session: low if the client ended before its hello was answered."""
        has_spoken = self.role is AGENT or self._peer.pipe.heard or self._last_beat_ns
        return logging.WARNING if has_spoken else logging.DEBUG

    def _log_disconnected(self, reason: str, seconds: float) -> None:
        logger.log(self._level(), "%s: %s; it has %.3g s to reconnect", self._title, reason, seconds)

    def _notify_lost(self) -> None:
        """Notify a peer, which may be alive, that its session has ended."""

    def on_stop(self) -> None:
        self._leave()

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        self._report_left(FAILED, repr(error))
        self._leave()

    def _leave(self) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self._services.acceptor.send(SessionEnded(self._peer))


class SessionTeardown(Actor):
    """Sends the last messages of an ended session to its tasks, graphs or worker proxies, in slices, and then ends.

    Args:
        messages: pairs of receiver and message, in the order of sending.
        before: unsent messages of the session, which are sent first.
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
