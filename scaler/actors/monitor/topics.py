"""Topics: what viewers can subscribe to, how often each is said, and what agents must report for it."""

from __future__ import annotations

from collections.abc import Iterable

from scaler.wire.messages.worker import Part

SCHEDULER, CLIENTS, WORKERS, PROCESSORS = "scheduler", "clients", "workers", "processors"
FUNCTIONS, BINS, FAILURES, TASKS = "functions", "bins", "failures", "tasks"
GRAPHS, OBJECTS, EVENTS = "graphs", "objects", "events"
TASK, GRAPH = "task/", "graph/"
"""Before the short id of a task or a graph, in hexadecimal digits."""

TICKS = {
    SCHEDULER: 1,
    CLIENTS: 1,
    WORKERS: 2,
    PROCESSORS: 2,
    FUNCTIONS: 1,
    BINS: 1,
    EVENTS: 1,
}
"""topic -> every how many ticks it is said"""

PARTS = {
    WORKERS: Part.WORKERS,
    PROCESSORS: Part.PROCESSORS,
    BINS: Part.BINS,
    FUNCTIONS: Part.FUNCTIONS,
}
"""topic -> what agents report for it"""


class Subscriptions:
    """The prefixes of topics that are wanted, as ZeroMQ has them: each wants all topics that begin with it."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = tuple(prefixes)
        self.topics = frozenset(topic for topic in TICKS if self.want(topic))

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def want(self, topic: str) -> bool:
        """Return whether anybody wants a topic."""
        return topic.startswith(self._prefixes)

    @property
    def parts(self) -> Part:
        """What agents must report."""
        parts = Part(0)
        for topic in self.topics:
            parts |= PARTS.get(topic, Part(0))
        return parts
