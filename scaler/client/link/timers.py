"""Timers: when a link sends its next heartbeat, replaces its connection, and gives up.

The link tells it what happened and when, and asks what is due. It has no clock of its own, so tests need none. All
times are seconds of one monotonic clock; infinity means never.
"""

from __future__ import annotations

import math

SILENT_HEARTBEATS = 3
SILENCE_LEAST_SECONDS = 5.0
"""A scheduler that is silent for this time, or for some heartbeats if that is longer, is sought on a new connection."""

PAUSE_LEAST_SECONDS, PAUSE_MOST_SECONDS = 0.05, 2.0
"""The pause before the next connection, from the second failure in a row on."""


class Timers:
    """The times of one link.

    Args:
        now: the present.
        timeout_seconds: how long open work waits for a missing scheduler.
        heartbeat_seconds: the time between two heartbeats.
        silence_seconds: how long a scheduler may be silent on one connection.
    """

    def __init__(
        self, now: float, timeout_seconds: float, heartbeat_seconds: float, silence_seconds: float | None = None
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._silence_seconds = silence_seconds or max(SILENT_HEARTBEATS * heartbeat_seconds, SILENCE_LEAST_SECONDS)
        self._opened_at = now
        self._pause_seconds = 0.0
        self._unanswered_since = now
        """since when the scheduler owes an answer: silence only counts after a question"""
        self._waiting_since = math.inf
        """since when open work waits for the scheduler"""
        self.opens_at = math.inf
        """when the next connection is opened, while there is none"""
        self.heartbeat_at = math.inf
        """when the next heartbeat is sent, on a welcomed connection"""

    # What happened

    def opened(self, now: float) -> None:
        """A connection was opened and a hello sent."""
        self._opened_at = now
        self.opens_at = math.inf
        self._unanswered_since = min(self._unanswered_since, now)

    def welcomed(self, now: float) -> None:
        """The scheduler answered the hello."""
        self.heartbeat_at = now + self._heartbeat_seconds
        self.heard()

    def proved(self) -> None:
        """The connection works: if it is lost, the next one is opened without a pause."""
        self._pause_seconds = 0.0

    def heard(self) -> None:
        """Something arrived."""
        self._unanswered_since = math.inf

    def heartbeat_sent(self, now: float) -> None:
        self.heartbeat_at = now + self._heartbeat_seconds
        self._unanswered_since = min(self._unanswered_since, now)

    def lost(self, now: float) -> None:
        """The connection was lost or closed."""
        self.heartbeat_at = math.inf
        self.opens_at = now + self._pause_seconds
        self._unanswered_since = min(self._unanswered_since, now)
        self._pause_seconds = min(max(2 * self._pause_seconds, PAUSE_LEAST_SECONDS), PAUSE_MOST_SECONDS)

    def set_waiting(self, is_waiting: bool, now: float) -> None:
        """Set whether any work waits for the scheduler."""
        self._waiting_since = min(self._waiting_since, now) if is_waiting else math.inf

    # What is due

    def gives_up_at(self) -> float:
        """Return when all open work fails."""
        if math.inf in (self._waiting_since, self._unanswered_since):
            return math.inf
        return max(self._unanswered_since, self._waiting_since) + self.timeout_seconds

    def silent_at(self) -> float:
        """Return when this connection is replaced because of silence."""
        if self._unanswered_since == math.inf or self.opens_at < math.inf:
            return math.inf
        return max(self._unanswered_since, self._opened_at) + self._silence_seconds

    def seconds_to_next(self, now: float) -> float:
        """Return the seconds until something is due."""
        next_at = min(self.heartbeat_at, self.opens_at, self.gives_up_at(), self.silent_at())
        return max(0.0, next_at - now)
