"""Rates per second, computed from counters that only grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.wire.messages import vocabulary

SUCCESS, FAILED, CANCELED, NOT_FOUND = "success", "failed", "canceled", "not_found"
OUTCOMES = (SUCCESS, FAILED, CANCELED, NOT_FOUND)
_OWN = {vocabulary.SUCCESS: SUCCESS, vocabulary.CANCELED: CANCELED, vocabulary.NOT_FOUND: NOT_FOUND}
_LEAST_US = 200_000


def by_outcome(ended: Mapping[str, int]) -> dict[str, int]:
    """Return the number of ended tasks by outcome; unknown states count as failures."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for name, amount in ended.items():
        counts[_OWN.get(name, FAILED)] += amount
    return counts


@dataclass
class Rates:
    """Rates per second over the interval between the last two messages; empty before the second message."""

    ended: dict[str, float] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)
    received: dict[str, float] = field(default_factory=dict)

    @property
    def tasks(self) -> float | None:
        """Ended tasks per second; None if the rate is unknown."""
        return sum(self.ended.values()) if self.ended else None


class RateMeter:
    """Measures rates from the counters that a scheduler reports repeatedly."""

    def __init__(self) -> None:
        self.rates = Rates()
        self._last: tuple[int, tuple[Mapping[str, int], ...]] | None = None

    def add(self, time_us: int, ended: Mapping[str, int], sent: Mapping[str, int], received: Mapping[str, int]) -> None:
        """Add the counters of a message that was sent at `time_us`."""
        now = (by_outcome(ended), dict(sent), dict(received))
        if self._last is not None:
            then_us, before = self._last
            passed_us = time_us - then_us
            if 0 <= passed_us < _LEAST_US:
                return
            if passed_us > 0:
                self.rates = Rates(*(_difference(*pair, passed_us) for pair in zip(now, before, strict=True)))
        self._last = time_us, now


def _difference(now: Mapping[str, int], last: Mapping[str, int], passed_us: int) -> dict[str, float]:
    return {name: max(0, amount - last.get(name, 0)) * 1e6 / passed_us for name, amount in now.items()}
