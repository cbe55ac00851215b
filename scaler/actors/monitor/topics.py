"""Topics: what viewers can subscribe to, how often each is published, and what must be reported and counted for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scaler.ids import is_public_id
from scaler.wire.messages.worker import WatchedPart

SCHEDULER, CLIENTS, WORKERS, PROCESSORS = "scheduler", "clients", "workers", "processors"
FUNCTIONS, BINS, FAILURES, TASKS = "functions", "bins", "failures", "tasks"
GRAPHS, OBJECTS, EVENTS, JOBS = "graphs", "objects", "events", "jobs"
TASK, GRAPH = "task/", "graph/"
"""Before the short id of a task or a graph, in hexadecimal digits."""


@dataclass(frozen=True)
class Topic:
    """What a topic needs, and when it is published."""

    ticks: int = 1
    """it is published every so many ticks"""
    part: WatchedPart = WatchedPart(0)  # noqa: RUF009 - a flag, which does not change
    """what agents report for it"""
    of_balancer: bool = False
    """whether the balancer counts for it what waits"""
    of_functions: bool = False
    """whether that is counted by function"""
    of_clients: bool = False
    """whether the sessions of clients count for it what is open"""


TOPICS = {
    SCHEDULER: Topic(of_balancer=True, of_functions=True, of_clients=True),
    CLIENTS: Topic(of_balancer=True, of_clients=True),
    WORKERS: Topic(ticks=2, part=WatchedPart.WORKERS),
    PROCESSORS: Topic(ticks=2, part=WatchedPart.PROCESSORS),
    FUNCTIONS: Topic(part=WatchedPart.FUNCTIONS, of_balancer=True, of_functions=True),
    BINS: Topic(part=WatchedPart.BINS),
    FAILURES: Topic(),
    TASKS: Topic(part=WatchedPart.RUNS),
    GRAPHS: Topic(ticks=2, of_clients=True),
    OBJECTS: Topic(ticks=2),
    EVENTS: Topic(),
    JOBS: Topic(),
}


class Subscriptions:
    """The prefixes of topics that are wanted, as ZeroMQ has them: each wants all topics that begin with it."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = tuple(prefixes)
        self.topics = frozenset(topic for topic in TOPICS if self.want(topic))
        self.tasks = frozenset(_short_ids(self._prefixes, TASK))
        """short ids of the tasks that are asked for"""
        self.graphs = frozenset(_short_ids(self._prefixes, GRAPH))

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def want(self, topic: str) -> bool:
        """Return whether anybody wants a topic."""
        return topic.startswith(self._prefixes)

    @property
    def parts(self) -> WatchedPart:
        """What agents must report."""
        parts = WatchedPart.RUNS if self.tasks else WatchedPart(0)
        for topic in self.topics:
            parts |= TOPICS[topic].part
        return parts


def _short_ids(prefixes: Iterable[str], kind: str) -> Iterator[bytes]:
    """Go through the short ids in the topics of single things."""
    for prefix in prefixes:
        digits = prefix.removeprefix(kind)
        if digits != prefix and is_public_id(digits):
            yield bytes.fromhex(digits)
