"""Rounds: when workers are asked to give tasks back, and how many.

Two things are looked at from time to time, and only while there is a reason: whether workers are idle while tasks wait
at others, and whether tasks wait at a worker where none ends. Between two rounds is the time that the settings say.
"""

from __future__ import annotations

import math
from typing import Generic

from scaler.actors.policy.interface import W
from scaler.actors.policy.places import Places
from scaler.actors.policy.rules import Rules

LOOK_SECONDS = 0.025
"""Interval between imbalance checks: half of WORK_AHEAD, enough for most workers to make progress."""

EARLY_SECONDS = 1e-6
"""A timer that fires so much too early is in time: the sum of two times is rounded."""


class Rounds(Generic[W]):
    """What was seen at the last looks, and when the next ones are."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._is_off = rules.round_seconds <= 0
        self._watch_at = math.inf
        """the next look for idle workers; never, unless the last one found some"""
        self._patrol_at = math.inf
        """the next look for stuck workers; never, unless tasks wait at some"""
        self._looks = 0
        """how many looks in a row found that it was uneven"""
        self._seen: dict[W, int] = {}
        """what the first of them saw"""
        self._last_seen: dict[W, int] = {}
        """what the last look for stuck workers saw"""
        self._next_round = 0.0

    @property
    def look_at(self) -> float | None:
        """When to look again; None: when something has happened."""
        at = min(self._watch_at, self._patrol_at)
        return None if at == math.inf else at

    def has_to_look(self, places: Places[W]) -> bool:
        """Return whether there is a first reason to look now."""
        return self._watch_at == math.inf and not self._is_off and places.is_uneven()

    def look(self, places: Places[W], now: float) -> dict[W, int]:
        """Return how many tasks workers shall give back now; mostly none."""
        if self._is_off:
            return {}
        asked: dict[W, int] = {}
        if self._watch_at == math.inf or self._watch_at <= now + EARLY_SECONDS:
            if places.is_uneven():
                asked = self._watch(places, now)
            elif self._watch_at != math.inf:
                self._watch_at = math.inf
                self._looks = 0
        if self._patrol_at <= now + EARLY_SECONDS:
            self._patrol_at = math.inf
            if self._next_round <= now + EARLY_SECONDS:
                asked.update(places.unblock(self._last_seen))
        if self._patrol_at == math.inf and places.has_waiting():
            self._patrol_at = now + self._rules.round_seconds
            self._last_seen = places.ended()
        return asked

    def _watch(self, places: Places[W], now: float) -> dict[W, int]:
        """Workers are idle while tasks wait at others: if that lasts, have tasks given back. Look again soon."""
        rules = self._rules
        if not self._looks:
            self._seen = places.ended()
        self._looks += 1
        asked: dict[W, int] = {}
        if self._looks >= rules.looks and self._next_round <= now + EARLY_SECONDS:
            seen = self._seen if self._looks > 1 else {}  # a first look alone does not see who is stuck
            asked = places.level(seen)
            self._looks = 0
            self._next_round = now + rules.round_seconds
        self._watch_at = max(now + LOOK_SECONDS, self._next_round)
        return asked
