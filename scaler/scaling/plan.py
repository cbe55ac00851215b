"""Plan: decides when to start a cluster and when to drain one. Sans I/O: it is given the state, and returns decisions.

The plan drains only clusters that have no tasks and whose workers exceed the demand. To avoid oscillation, a shortage
must last for some time, started clusters count before they connect, and only clusters that were idle for long are
drained.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

SHORTAGE_SECONDS = 2.0
"""The time that a shortage of workers must last before a cluster is started. A shorter shortage ends by itself."""


@dataclass(frozen=True)
class Bounds:
    """Limits and delays that the user sets.

    Args:
        each: the number of workers that one command starts.
        idle_seconds: the time without a task after which a cluster is drained.
        start_seconds: the time after which a started cluster that has not connected is ended.
    """

    least: int
    most: int
    each: int = 1
    idle_seconds: float = 60.0
    start_seconds: float = math.inf


@dataclass(frozen=True)
class ScaledCluster:
    """A cluster of this `scaler_scale`, with its connected workers; `is_busy`: whether a worker has a task."""

    name: str
    started_at: float
    workers: int
    is_busy: bool


@dataclass
class Decision:
    """The number of clusters to start, and the clusters to drain."""

    start: int = 0
    drain: list[str] = field(default_factory=list)


class Plan:
    """Decides which clusters to start and to drain. Each decision is based on the whole state."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._short_since: float | None = None
        self._idle_since: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._seen: set[str] = set()
        """the names of clusters that have had workers: such a cluster without workers is expected to reconnect"""

    def target(self, wanted: int) -> int:
        """Return how many workers there should be. `wanted`: the number of workers that the tasks could use."""
        return max(self._bounds.least, min(self._bounds.most, wanted))

    def decide(self, now: float, wanted: int, workers: int, clusters: Collection[ScaledCluster]) -> Decision:
        """Return the clusters to start and to drain.

        Args:
            now: the time in monotonic seconds.
            wanted: the number of workers that the tasks could use.
            workers: the number of connected workers that are not draining, including workers of foreign clusters.
            clusters: the clusters of this `scaler_scale` that are not draining.
        """
        each = self._bounds.each
        self._update(now, clusters)
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
        return cluster.name not in self._seen and now - cluster.started_at >= self._bounds.start_seconds

    def _update(self, now: float, clusters: Collection[ScaledCluster]) -> None:
        names = {each.name for each in clusters}
        self._seen = (self._seen & names) | {each.name for each in clusters if each.workers}
        idle = {each.name: each for each in clusters if each.workers and not each.is_busy}
        self._idle_since = {name: self._idle_since.get(name, now) for name in idle}
        self._sizes = {name: each.workers for name, each in idle.items()}

    def _left_over(self, now: float, spare: int) -> list[str]:
        """Return idle clusters with at most `spare` workers together. Clusters that were idle longest come first."""
        drained = []
        for name, since in sorted(self._idle_since.items(), key=lambda item: item[1]):
            if now - since >= self._bounds.idle_seconds and self._sizes[name] <= spare:
                spare -= self._sizes[name]
                drained.append(name)
        return drained
