"""Topics: what viewers can subscribe to, how often each is said, and what agents must report for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler.ids import PUBLIC_ID_BYTES
from scaler.wire.messages.worker import Part

SCHEDULER, CLIENTS, WORKERS, PROCESSORS = "scheduler", "clients", "workers", "processors"
FUNCTIONS, BINS, FAILURES, TASKS = "functions", "bins", "failures", "tasks"
GRAPHS, OBJECTS, EVENTS = "graphs", "objects", "events"
TASK, GRAPH = "task/", "graph/"
"""Before the short id of a task or a graph, in hexadecimal digits."""

_DIGITS = frozenset("0123456789abcdef")

TICKS = {
    SCHEDULER: 1,
    CLIENTS: 1,
    WORKERS: 2,
    PROCESSORS: 2,
    FUNCTIONS: 1,
    BINS: 1,
    FAILURES: 1,
    TASKS: 1,
    GRAPHS: 2,
    OBJECTS: 2,
    EVENTS: 1,
}
"""topic -> every how many ticks it is said"""

PARTS = {
    WORKERS: Part.WORKERS,
    PROCESSORS: Part.PROCESSORS,
    BINS: Part.BINS,
    FUNCTIONS: Part.FUNCTIONS,
    TASKS: Part.RUNS,
}
"""topic -> what agents report for it"""


class Subscriptions:
    """The prefixes of topics that are wanted, as ZeroMQ has them: each wants all topics that begin with it."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = tuple(prefixes)
        self.topics = frozenset(topic for topic in TICKS if self.want(topic))
        self.tasks = frozenset(_short_ids(self._prefixes, TASK))
        """short ids of the tasks that are asked for"""
        self.graphs = frozenset(_short_ids(self._prefixes, GRAPH))

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def want(self, topic: str) -> bool:
        """Return whether anybody wants a topic."""
        return topic.startswith(self._prefixes)

    @property
    def parts(self) -> Part:
        """What agents must report."""
        parts = Part.RUNS if self.tasks else Part(0)
        for topic in self.topics:
            parts |= PARTS.get(topic, Part(0))
        return parts


def _short_ids(prefixes: Iterable[str], kind: str) -> Iterator[bytes]:
    """Go through the short ids in the topics of single things."""
    for prefix in prefixes:
        digits = prefix.removeprefix(kind)
        if len(digits) == 2 * PUBLIC_ID_BYTES and digits != prefix and set(digits) <= _DIGITS:
            yield bytes.fromhex(digits)
