"""Absence: logs from time to time that a node has no scheduler.

Used by the link, which has it look after `Absence.next_seconds`. A wrong address looks like a scheduler that starts
later, so the log must say so. How long the node waits is no business of this room.
"""

from __future__ import annotations

import logging

from scaler.transport.lookup import Lookup

logger = logging.getLogger(__name__)

SAY_AFTER_SECONDS = 3.0
SAY_EVERY_SECONDS = 30.0


class Absence:
    """The time without a scheduler.

    Args:
        address: where it should be.
        most_seconds: after this time the cluster ends, says the log.
        lookup: of the name in that address.
    """

    def __init__(self, address: str, most_seconds: float, now: float, lookup: Lookup) -> None:
        self._address = address
        self._lookup = lookup
        self._most_seconds = most_seconds
        self._began = now
        self._said = 0

    def look(self, now: float, refused_because: str = "") -> None:
        """Log that there is no scheduler, if that is due.

        Args:
            refused_because: why the one that is there does not take this node.
        """
        seconds = now - self._began
        if seconds >= self._next_say():
            self._said += 1
            logger.warning(
                "no scheduler has %s at %s for %.0f s. %s The cluster keeps trying, and ends itself after %g s "
                "without one",
                "accepted this cluster" if refused_because else "answered",
                self._address,
                seconds,
                f"The reason: {refused_because}." if refused_because else self._why(),
                self._most_seconds,
            )

    def next_seconds(self, now: float) -> float:
        """Return when to look again, in seconds from now."""
        return max(0.0, self._began + self._next_say() - now)

    def _why(self) -> str:
        if self._lookup.problem:
            return f"The reason: {self._lookup.problem}."
        return "Is that its address, is it running, and does the network let this machine reach it?"

    def _next_say(self) -> float:
        return SAY_AFTER_SECONDS + self._said * SAY_EVERY_SECONDS
