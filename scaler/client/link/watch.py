"""Watch: notices that nothing of a client goes on, finds out why, and says so once in the log.

Used by the protocol only, which lets it look at the clock whenever something happens anyway, at least with each
heartbeat. So it costs the usual way nothing: it asks only about a task that has been the oldest one for some seconds.
Must never: ask more often than that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf

from scaler.client.link.open_work import OpenWork
from scaler.client.link.questions import OnAnswer
from scaler.ids import TaskId
from scaler.wire.messages.client import ExplainResponse
from scaler.wire.messages.vocabulary import NOT_ABLE, STUCK

logger = logging.getLogger("scaler.client")

WARN_SECONDS = 5.0
"""After so long without an end of the oldest task, it is asked about."""
ASK_SECONDS_MOST = 60.0
"""The longest time between two questions about the same task."""
LOOK_SECONDS = 1.0


class Watch:
    """Watches the oldest open task of a client.

    Args:
        work: the open work.
        ask: asks what a task waits for.
        is_off: whether it never looks: in a task, whose client outside says it.
    """

    def __init__(self, work: OpenWork, ask: Callable[[TaskId, OnAnswer], None], is_off: bool = False) -> None:
        self.look_at = inf if is_off else -inf
        """when to look again, at the earliest"""
        self.due_at = inf
        """when to ask about the oldest task; infinite: nothing is open"""
        self.concern = ""
        """why nothing goes on, as a sentence; empty: nothing is known to be wrong"""
        self._work = work
        self._ask = ask
        self._told = ""
        """the reason that the log has said, which the concern is about"""
        self._oldest: TaskId | None = None
        self._pause_seconds = WARN_SECONDS

    @property
    def next_at(self) -> float:
        """When there is something to do, if nothing happens until then."""
        return max(self.look_at, self.due_at)

    def look(self, now: float) -> None:
        """See whether the oldest task is still the same."""
        self.look_at = now + LOOK_SECONDS
        oldest = self._work.oldest()
        if oldest is None or oldest != self._oldest:
            self._oldest = oldest
            self._pause_seconds = WARN_SECONDS
            self.due_at = inf if oldest is None else now + WARN_SECONDS
            self._set_concern("", "")
        elif now >= self.due_at:
            self.due_at = now + self._pause_seconds
            self._pause_seconds = WARN_SECONDS if self.concern else min(2 * self._pause_seconds, ASK_SECONDS_MOST)
            self._ask(oldest, self._on_answer)

    def forget(self) -> None:
        """Nothing that has waited goes on: all of it has failed."""
        self.concern = self._told = ""

    def _on_answer(self, answer: ExplainResponse) -> None:
        is_stuck = answer.waits_for in STUCK
        self._set_concern(*(answer.waits_for, answer.sentence) if is_stuck else ("", ""))

    def _set_concern(self, reason: str, concern: str) -> None:
        self.concern = concern  # it tells for how long they wait, which alone is no news
        if reason == self._told:
            return
        self._told = reason
        if reason:
            logger.warning("%s: %s", _who_waits(self._work.n_open, reason), concern)
        else:
            logger.warning("tasks are progressing again")


def _who_waits(n_open: int, reason: str) -> str:
    if n_open == 1:
        return "1 task waits"
    return f"the oldest of {n_open:,} open tasks waits" if reason == NOT_ABLE else f"{n_open:,} tasks wait"
