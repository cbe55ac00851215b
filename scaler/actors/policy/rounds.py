"""Rounds: decides when to recall tasks from workers, and how many.

There are two periodic checks, which run only while tasks wait at workers. One check looks for idle workers. The other
looks for stuck workers, at which tasks wait and no task ends. The settings give the least time between two rounds of
recalls.
"""

from __future__ import annotations

import math

from scaler.actors.policy.worker_loads import WorkerLoads
from scaler.kit import ActorRef
from scaler.settings import SchedulerConfig

LOOK_SECONDS = 0.025
"""The time between two checks for idle workers. It is half of `WORK_AHEAD_US`; most workers end a task in this time."""

EARLY_SECONDS = 1e-6
"""A timer may fire too early by up to this time, because the sum of two times is rounded."""


class Rounds:
    """Finds idle and stuck workers, and decides how many tasks to recall from which workers."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._is_off = config.load_balance_seconds <= 0
        self._watch_at = math.inf
        """the time of the next check for idle workers; infinite unless the last check found an idle worker"""
        self._patrol_at = math.inf
        """the time of the next check for stuck workers; infinite unless tasks wait at some worker"""
        self._looks = 0
        """the number of checks in a row that found idle workers"""
        self._seen: dict[ActorRef, int] = {}
        """the number of ended tasks by worker, at the first of the checks in a row that found idle workers"""
        self._last_seen: dict[ActorRef, int] = {}
        """the number of ended tasks by worker, at the last check for stuck workers"""
        self._next_round = 0.0
        self.look_at: float | None = None
        """the time of the next check of either kind; None: no check is planned, until the loads change"""

    def has_to_look(self, loads: WorkerLoads) -> bool:
        """Return whether to check now: a worker is idle while tasks wait at other workers, and no check is planned."""
        return self._watch_at == math.inf and not self._is_off and loads.is_uneven()

    def look(self, loads: WorkerLoads, now: float) -> dict[ActorRef, int]:
        """Run the checks that are due. Return the number of tasks to recall now, by worker; usually empty."""
        if self._is_off or (self.look_at is None and not loads.has_waiting()):
            return {}
        asked: dict[ActorRef, int] = {}
        if self._watch_at == math.inf or self._watch_at <= now + EARLY_SECONDS:
            if loads.is_uneven():
                asked = self._watch(loads, now)
            elif self._watch_at != math.inf:
                self._watch_at = math.inf
                self._looks = 0
        if self._patrol_at <= now + EARLY_SECONDS:
            self._patrol_at = math.inf
            if self._next_round <= now + EARLY_SECONDS:
                asked.update(loads.unblock(self._last_seen))
        if self._patrol_at == math.inf and loads.has_waiting():
            self._patrol_at = now + self._config.load_balance_seconds
            self._last_seen = loads.ended()
        at = min(self._watch_at, self._patrol_at)
        self.look_at = None if at == math.inf else at
        return asked

    def _watch(self, loads: WorkerLoads, now: float) -> dict[ActorRef, int]:
        """Recall tasks if enough checks in a row found idle workers, and set the time of the next check."""
        config = self._config
        if not self._looks:
            self._seen = loads.ended()
        self._looks += 1
        asked: dict[ActorRef, int] = {}
        if self._looks >= config.load_balance_trigger_times and self._next_round <= now + EARLY_SECONDS:
            seen = self._seen if self._looks > 1 else {}  # the first check alone cannot tell which workers are stuck
            asked = loads.level(seen)
            self._looks = 0
            self._next_round = now + config.load_balance_seconds
        self._watch_at = max(now + LOOK_SECONDS, self._next_round)
        return asked
