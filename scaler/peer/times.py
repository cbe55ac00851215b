"""Times: when a conversation has to do something, if nothing happens before.

All times are seconds of one monotonic clock, which the caller reads; infinity means never.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from scaler.peer.states import GOODBYE_OVER, HEARTBEAT_DUE, PAUSE_OVER, SILENCE, TIMED_OUT, Event

SILENT_HEARTBEATS = 3
SILENCE_LEAST_SECONDS = 5.0
"""A peer reconnects after a silence of this time, or of `SILENT_HEARTBEATS` heartbeat intervals if that is longer."""

HEARTBEATS_IN_TIMEOUT = 4
"""A peer sends at least this many heartbeats in the time after which the scheduler takes a silent peer for dead."""

PAUSE_LEAST_SECONDS, PAUSE_MOST_SECONDS = 0.05, 2.0
"""The shortest and the longest pause before the next connection, in this order. After a first loss there is no pause.
From the second loss in a row on, the pause doubles with each loss. The pause has no random part, because ZeroMQ
itself spreads the attempts to reach a host that does not answer.
"""

GOODBYE_SECONDS = 1.0
"""The time that a peer waits for the answer to its goodbye."""

LATE_SECONDS = 1.0
"""If `look` is called this much later than planned, the process of the peer has been stopped or starved meanwhile."""


@dataclass(frozen=True)
class Patience:
    """The intervals and time-outs of a peer.

    Args:
        timeout_seconds: how long open work waits for a scheduler that does not answer.
        silence_seconds: how long a hello or heartbeat may stay unanswered; None: see `SILENCE_LEAST_SECONDS`.
    """

    heartbeat_seconds: float
    timeout_seconds: float
    silence_seconds: float | None = None

    def silence(self) -> float:
        """Return how long a hello or heartbeat may stay unanswered on one connection."""
        by_rule = max(SILENT_HEARTBEATS * self.heartbeat_seconds, SILENCE_LEAST_SECONDS)
        return by_rule if self.silence_seconds is None else self.silence_seconds


class Times:
    """The times at which the actions of one conversation are due."""

    def __init__(self, patience: Patience) -> None:
        self.timeout_seconds = patience.timeout_seconds
        self._longest_heartbeat_seconds = self._heartbeat_seconds = patience.heartbeat_seconds
        self._silence_seconds = patience.silence()
        self._opened_at = -inf
        self._losses = 0
        """the number of losses in a row, counted from the last connection on which a message followed the welcome"""
        self.opens_at = -inf
        self.heartbeat_at = inf
        self.leaves_at = inf
        self.unanswered_since = inf
        """when the oldest unanswered hello or heartbeat was sent, or a connection was lost: silence counts from then"""
        self.waiting_since = inf

    # What was done

    def opened(self, now: float) -> None:
        self._opened_at = now
        self.opens_at = inf
        self._ask(now)

    def welcomed(self, now: float) -> None:
        self.unanswered_since = inf
        self.heartbeat_at = now + self._heartbeat_seconds

    def limit_heartbeat(self, dead_after_seconds: float) -> None:
        """Send heartbeats often enough for a scheduler that takes a peer for dead after this silence; 0: unknown."""
        often_enough = dead_after_seconds / HEARTBEATS_IN_TIMEOUT if dead_after_seconds else inf
        self._heartbeat_seconds = min(self._longest_heartbeat_seconds, often_enough)

    def heartbeat_sent(self, now: float) -> None:
        self.heartbeat_at = now + self._heartbeat_seconds
        self._ask(now)

    def _ask(self, now: float) -> None:
        self.unanswered_since = min(self.unanswered_since, now)

    def lost(self, now: float, had_messages: bool) -> None:
        """Set the times after a lost connection.

        Args:
            had_messages: whether a message arrived on the lost connection after the welcome.
        """
        self._losses = 0 if had_messages else self._losses
        pause_seconds = min(PAUSE_LEAST_SECONDS * 2 ** (self._losses - 1), PAUSE_MOST_SECONDS) if self._losses else 0.0
        self._losses = min(self._losses + 1, 16)
        self._ask(now)
        self.heartbeat_at = inf
        self.opens_at = max(now + pause_seconds, self._opened_at + PAUSE_LEAST_SECONDS)

    def left(self, now: float) -> None:
        """Set the times after a goodbye."""
        self.heartbeat_at = inf
        self.leaves_at = now + GOODBYE_SECONDS

    def ended(self) -> None:
        self.opens_at = self.heartbeat_at = self.leaves_at = self.unanswered_since = self.waiting_since = inf

    def set_waiting(self, is_waiting: bool, now: float) -> None:
        """Set whether any work waits for the scheduler."""
        self.waiting_since = min(self.waiting_since, now) if is_waiting else inf

    def paused(self, seconds: float) -> None:
        """Move the starts of all intervals later by the `seconds` for which the process was stopped, so that these do
        not count.
        """
        self._opened_at += seconds
        self.unanswered_since += seconds
        self.waiting_since += seconds

    # What is due

    def silent_at(self) -> float:
        """Return when the peer replaces its silent connection; infinity if it has none, or expects no answer."""
        if self.unanswered_since == inf or self.opens_at < inf:
            return inf
        return max(self.unanswered_since, self._opened_at) + self._silence_seconds

    def timeout_at(self) -> float:
        """Return when waiting work times out without an answer; infinity if no work waits, or no answer is expected."""
        if inf in (self.waiting_since, self.unanswered_since):
            return inf
        return max(self.unanswered_since, self.waiting_since) + self.timeout_seconds

    def next_due(self) -> tuple[float, Event]:
        """Return the next event that is due, and its time."""
        return min(
            (self.timeout_at(), TIMED_OUT),
            (self.silent_at(), SILENCE),
            (self.opens_at, PAUSE_OVER),
            (self.heartbeat_at, HEARTBEAT_DUE),
            (self.leaves_at, GOODBYE_OVER),
            key=_time_of,
        )


def _time_of(due: tuple[float, Event]) -> float:
    return due[0]
