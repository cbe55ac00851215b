"""Absence: measures how long a node has no scheduler, and logs that from time to time.

Used by the link, which checks it after `Absence.next_seconds`. A wrong address looks like a scheduler that starts
later, so the log must say so.
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

SAY_AFTER_SECONDS = 3.0
SAY_EVERY_SECONDS = 30.0


class Absence:
    """The time without a scheduler.

    Args:
        address: where it should be.
        most_seconds: after this time the cluster ends.
    """

    def __init__(self, address: str, most_seconds: float, now: float) -> None:
        self._address = address
        self._most_seconds = most_seconds
        self._began = now
        self._said = 0

    def look(self, now: float) -> bool:
        """Log that there is no scheduler, if that is due. Return whether this has lasted too long."""
        seconds = now - self._began
        if seconds >= self._most_seconds:
            logger.warning("no scheduler at %s for %g s: the cluster ends", self._address, self._most_seconds)
            return True
        if seconds >= self._next_say():
            self._said += 1
            logger.warning(
                "no scheduler has answered at %s for %.0f s. Is that its address, is it running, and does the network "
                "let this machine reach it? The cluster keeps trying, and ends itself after %g s without one",
                self._address,
                seconds,
                self._most_seconds,
            )
        return False

    def next_seconds(self, now: float) -> float:
        """Return when to look again, in seconds from now."""
        return max(0.0, self._began + min(self._next_say(), self._most_seconds) - now)

    def _next_say(self) -> float:
        return SAY_AFTER_SECONDS + self._said * SAY_EVERY_SECONDS
