"""Plan: when to start a cluster and when to drain one. Sans I/O: it is told what there is, and says what to do.

It never drains a cluster that works, and never more than the demand leaves over. What keeps it from going to and fro:
a shortage must last for some time, what was started is waited for, only one that was idle for long is drained.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

SHORTAGE_SECONDS = 2.0
"""For how long workers must be missing: work that is done in less needs no more of them."""


@dataclass(frozen=True)
class Bounds:
    """What the user wants.

    Args:
        least: how many workers there are always.
        most: how many there are at most.
        each: how many one command brings.
        idle_seconds: after how long without a task a cluster is drained.
        start_seconds: how long a started cluster is waited for; then it is ended, and another one may be started.
    """

    least: int
    most: int
    each: int = 1
    idle_seconds: float = 60.0
    start_seconds: float = math.inf


@dataclass(frozen=True)
class ScaledCluster:
    """A cluster that was started by us.

    Args:
        name: tells it from the others.
        started_at: when.
        workers: how many of its workers are connected.
        is_busy: whether any of them has a task.
    """

    name: str
    started_at: float
    workers: int
    is_busy: bool


@dataclass
class Decision:
    """What to do now: how many clusters to start, and which to drain."""

    start: int = 0
    drain: list[str] = field(default_factory=list)


class Plan:
    """Decides again and again, each time from all that there is.

    Args:
        bounds: what the user wants.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._short_since: float | None = None
        self._idle_since: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        """workers of those that are idle"""
        self._come: set[str] = set()
        """those that were connected at least once; without workers they are expected back"""

    def target(self, wanted: int) -> int:
        """Return how many workers there should be if so many could be used."""
        return max(self._bounds.least, min(self._bounds.most, wanted))

    def decide(self, now: float, wanted: int, workers: int, clusters: Collection[ScaledCluster]) -> Decision:
        """Return what to do.

        Args:
            now: seconds that only grow.
            wanted: how many workers could be used.
            workers: how many are connected, also those of clusters that others have started; without leaving ones.
            clusters: ours, without those that were told to leave.
        """
        each = self._bounds.each
        self._note(now, clusters)
        target = self.target(wanted)
        absent = [cluster for cluster in clusters if not cluster.workers]
        late = [cluster.name for cluster in absent if self._is_late(now, cluster)]
        coming = (len(absent) - len(late)) * each
        missing = target - workers - coming
        if missing <= 0:
            self._short_since = None
            is_young = any(
                now - each.started_at < self._bounds.idle_seconds for each in absent if each.name not in late
            )
            return Decision(drain=late if is_young else late + self._left_over(now, workers - target))
        if self._short_since is None:
            self._short_since = now
        if workers >= self._bounds.least and now - self._short_since < SHORTAGE_SECONDS:
            return Decision(drain=late)
        room = max(0, self._bounds.most - workers - coming)
        return Decision(min(math.ceil(missing / each), room // each), late)

    def _is_late(self, now: float, cluster: ScaledCluster) -> bool:
        return cluster.name not in self._come and now - cluster.started_at >= self._bounds.start_seconds

    def _note(self, now: float, clusters: Collection[ScaledCluster]) -> None:
        names = {each.name for each in clusters}
        self._come = (self._come & names) | {each.name for each in clusters if each.workers}
        idle = {each.name: each for each in clusters if each.workers and not each.is_busy}
        self._idle_since = {name: self._idle_since.get(name, now) for name in idle}
        self._sizes = {name: each.workers for name, each in idle.items()}

    def _left_over(self, now: float, spare: int) -> list[str]:
        """Return idle clusters, those that have been so for longest first, of which the workers are not needed."""
        drained = []
        for name, since in sorted(self._idle_since.items(), key=lambda item: item[1]):
            if now - since >= self._bounds.idle_seconds and self._sizes[name] <= spare:
                spare -= self._sizes[name]
                drained.append(name)
        return drained
