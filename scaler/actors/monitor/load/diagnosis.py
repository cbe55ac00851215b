"""Diagnosis: the verdict and the remaining time, computed once a second while a viewer is subscribed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from scaler.actors.messages.tasks import UINT64_MOST
from scaler.actors.monitor.board import Gauges
from scaler.actors.monitor.load.recent import RecentSeconds
from scaler.actors.monitor.load.remaining import RemainingTime
from scaler.actors.monitor.load.verdict import ClusterLoad, StandingVerdict, verdicts, warning_of
from scaler.wire.messages.monitor import StateVerdict, StateWaiting
from scaler.wire.messages.verdicts import IDLE

BUSY_SNAPSHOTS = 10
"""The share of busy workers is the mean of this many snapshots: a single one is inaccurate if tasks are short."""
REPORTS_SECONDS = 3.0
"""The longest wait for the first reports of agents. Without them, the number of busy workers is unknown."""


class WorkerLoad(NamedTuple):
    """The figures about workers, from the latest reports of their agents."""

    workers: int
    busy: int
    suspended: int
    """the number of tasks that wait for nested tasks, and take no slot meanwhile"""
    held: int
    has_reports: bool
    """whether an agent has sent a report"""


class Diagnosis:
    """Keeps the counters of the last minute, and derives the verdict and the remaining time from them."""

    def __init__(self) -> None:
        self._recent = RecentSeconds()
        self._gauges = Gauges()
        self._remaining = RemainingTime()
        self._standing = StandingVerdict()
        self._busy_shares: deque[float] = deque(maxlen=BUSY_SNAPSHOTS)
        self._began_at: float | None = None
        """when the present subscriptions began; None while no viewer is subscribed"""
        self._item: StateVerdict | None = None

    def count(self, now: float, time_us: int, ended: int, gauges: Gauges, late_seconds: float) -> None:
        """Add the counters of a second; `late_seconds`: the delay of the timer that called this."""
        self._gauges = gauges
        lag_us = max(gauges.lag_most_us, int(late_seconds * 1e6))
        self._recent.add(now, time_us, ended, gauges.cpu_permille, lag_us)

    @property
    def gauges(self) -> Gauges:
        """The gauges of the last second."""
        return self._gauges

    def stop(self) -> None:
        """Forget what depends on subscriptions, because the last viewer has left."""
        self._began_at = self._item = None
        self._remaining, self._standing = RemainingTime(), StandingVerdict()
        self._busy_shares.clear()

    def update(
        self, now: float, groups: Sequence[StateWaiting], load: WorkerLoad, tasks: tuple[int, int], address: str
    ) -> StateVerdict | None:
        """Return the verdict on the present groups of open tasks; None while the first reports of agents are awaited.

        Args:
            tasks: the number of open tasks, and how many of these are at workers.
            address: the address of the scheduler, for advice.
        """
        self._began_at = now if self._began_at is None else self._began_at
        if load.workers and not load.has_reports and now - self._began_at < REPORTS_SECONDS:
            return None
        self._busy_shares.append(load.busy / load.workers if load.workers else 0.0)
        busy_share = sum(self._busy_shares) / len(self._busy_shares)
        recent, machine = self._recent, _sentence_on(self._gauges)
        facts = (address, *tasks, load.workers, busy_share, load.held, recent.is_busy, recent.is_late, machine)
        found = self._standing.update(list(verdicts(groups, ClusterLoad(*facts))), now)
        self._remaining.update(groups, load.workers, recent.per_second())
        left_us = min(UINT64_MOST, round(1e6 * (self._remaining.seconds or 0)))
        idle_since_us = recent.last_end_us if found.word == IDLE else 0
        self._item = StateVerdict(*found, warning_of(groups, found.word), left_us, idle_since_us)
        return self._item

    @property
    def last(self) -> StateVerdict | None:
        """The verdict of the last second; None before the first verdict."""
        return self._item


def _sentence_on(gauges: Gauges) -> str:
    cores = f"{gauges.cores} core{'s' * (gauges.cores != 1)}"
    return (
        f"the scheduler waits for a processor: {gauges.machine_load:.0f} processes share the {cores} of its machine; "
        "give the scheduler a core of its own"
    )
