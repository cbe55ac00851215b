"""Rates and the history of the last seconds, from counters that only grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field

from scaler.wire.messages import vocabulary
from scaler.wire.messages.monitor import StateScheduler

SUCCESS, FAILED, CANCELED, NOT_FOUND = "success", "failed", "canceled", "not_found"
OUTCOMES = (SUCCESS, FAILED, CANCELED, NOT_FOUND)
_OWN = {vocabulary.SUCCESS: SUCCESS, vocabulary.CANCELED: CANCELED, vocabulary.NOT_FOUND: NOT_FOUND}
_LEAST_US = 200_000
"""Counters read at a shorter interval say little about a rate."""
HISTORY_SECONDS = 60


def by_outcome(ended: Mapping[str, int]) -> dict[str, int]:
    """Return how many tasks ended in each of four ways; whatever is none of the others is a failure."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for name, amount in ended.items():
        counts[_OWN.get(name, FAILED)] += amount
    return counts


@dataclass(frozen=True)
class Moment:
    """What the scheduler said at one moment, with rates since the one before."""

    time_us: int
    per_second: Mapping[str, float]
    """tasks that ended, by outcome"""
    cpu_permille: int
    lag_us: int
    open: int
    is_restart: bool = False
    """whether the counters began anew here"""

    @property
    def tasks_per_second(self) -> float:
        """Tasks that ended in any way."""
        return sum(self.per_second.values())


@dataclass
class _Counters:
    time_us: int
    ended: dict[str, int]
    sent: dict[str, int]
    received: dict[str, int]


@dataclass
class Rates:
    """Per second, over the last interval between two messages; empty until there was one."""

    ended: dict[str, float] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)
    received: dict[str, float] = field(default_factory=dict)

    @property
    def tasks(self) -> float | None:
        """Tasks that ended in any way; None if it is not known yet."""
        return sum(self.ended.values()) if self.ended else None


class History:
    """A ring of moments, and the rates that belong to the last of them.

    Args:
        seconds: how far back it reaches.
    """

    def __init__(self, seconds: int = HISTORY_SECONDS) -> None:
        self._span_us = seconds * 1_000_000
        self.moments: deque[Moment] = deque()
        self.rates = Rates()
        self._last: _Counters | None = None
        self._restarted = False

    def restart(self) -> None:
        """The counters begin anew; what was before stays."""
        self._last = None
        self.rates = Rates()
        self._restarted = True

    def still(self) -> History:
        """Return a copy that does not change."""
        picture = copy(self)
        picture.moments = self.moments.copy()
        return picture

    def add(
        self,
        time_us: int,
        scheduler: StateScheduler,
        ended: dict[str, int],
        sent: dict[str, int],
        received: dict[str, int],
    ) -> None:
        """Take the next counters."""
        now = _Counters(time_us, by_outcome(ended), dict(sent), dict(received))
        last = self._last
        if last is not None:
            passed_us = time_us - last.time_us
            if 0 <= passed_us < _LEAST_US:
                return
            if passed_us > 0:
                self.rates = Rates(
                    _difference(now.ended, last.ended, passed_us),
                    _difference(now.sent, last.sent, passed_us),
                    _difference(now.received, last.received, passed_us),
                )
        self._last = now
        self._append(
            Moment(
                time_us,
                dict(self.rates.ended),
                scheduler.cpu_permille,
                scheduler.lag_most_us,
                scheduler.waiting + scheduler.running,
                self._restarted,
            )
        )
        self._restarted = False

    def _append(self, moment: Moment) -> None:
        moments = self.moments
        moments.append(moment)
        while moments[0].time_us <= moment.time_us - self._span_us:
            moments.popleft()

    def seconds(self, width: int = HISTORY_SECONDS) -> list[Moment | None]:
        """Return the moments of the last `width` seconds, one for each; None where nothing was heard."""
        row: list[Moment | None] = [None] * width
        if not self.moments:
            return row
        end = self.moments[-1].time_us // 1_000_000
        for moment in self.moments:
            index = width - 1 - (end - moment.time_us // 1_000_000)
            if 0 <= index < width:
                row[index] = moment
        return _without_jitter(row)


def _without_jitter(row: list[Moment | None]) -> list[Moment | None]:
    """Messages are not exactly a second apart: a single empty second is no gap."""
    filled = list(row)
    for index in range(1, len(row) - 1):
        if row[index] is None and row[index + 1] is not None:
            filled[index] = row[index - 1]
    return filled


def _difference(now: Mapping[str, int], last: Mapping[str, int], passed_us: int) -> dict[str, float]:
    return {name: max(0, amount - last.get(name, 0)) * 1e6 / passed_us for name, amount in now.items()}
