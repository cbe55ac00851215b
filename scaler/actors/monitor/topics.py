"""Topics: what viewers can subscribe to, how often each topic is published, and which reports and counts it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scaler.ids import is_public_id
from scaler.wire.messages.worker import WatchedPart

SCHEDULER, CLIENTS, WORKERS, PROCESSORS = "scheduler", "clients", "workers", "processors"
FUNCTIONS, BINS, FAILURES, TASKS = "functions", "bins", "failures", "tasks"
GRAPHS, OBJECTS, EVENTS, JOBS = "graphs", "objects", "events", "jobs"
TASK, GRAPH = "task/", "graph/"
"""Prefixes, in this order, of the topics of one task and of one graph. A short id in hexadecimal digits follows."""


@dataclass(frozen=True)
class Topic:
    """The reports and counts that a topic needs, and how often the topic is published."""

    ticks: int = 1
    """the number of ticks from one publication to the next"""
    part: WatchedPart = WatchedPart(0)  # noqa: RUF009 - a flag, which does not change
    needs_balancer: bool = False
    needs_functions: bool = False
    """whether the topic needs the balancer's counts of waiting tasks by function"""
    needs_clients: bool = False
    """whether the topic needs the client sessions' counts of open tasks"""


TOPICS = {
    SCHEDULER: Topic(
        part=WatchedPart.WORKERS | WatchedPart.FUNCTIONS, needs_balancer=True, needs_functions=True, needs_clients=True
    ),
    CLIENTS: Topic(needs_balancer=True, needs_clients=True),
    WORKERS: Topic(ticks=2, part=WatchedPart.WORKERS),
    PROCESSORS: Topic(ticks=2, part=WatchedPart.PROCESSORS),
    FUNCTIONS: Topic(part=WatchedPart.FUNCTIONS, needs_balancer=True, needs_functions=True),
    BINS: Topic(part=WatchedPart.BINS),
    FAILURES: Topic(),
    TASKS: Topic(part=WatchedPart.RUNS),
    GRAPHS: Topic(ticks=2, needs_clients=True),
    OBJECTS: Topic(ticks=2),
    EVENTS: Topic(),
    JOBS: Topic(),
}


class Subscriptions:
    """The subscribed prefixes of topics, as in ZeroMQ: a prefix matches all topics that start with it."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = tuple(prefixes)
        self.topics = frozenset(topic for topic in TOPICS if self.want(topic))
        self.tasks = frozenset(_short_ids(self._prefixes, TASK))
        """short ids of the tasks that viewers watch"""
        self.graphs = frozenset(_short_ids(self._prefixes, GRAPH))

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def want(self, topic: str) -> bool:
        """Return whether a topic has a subscriber."""
        return topic.startswith(self._prefixes)

    @property
    def parts(self) -> WatchedPart:
        """The parts of agents' reports that the subscriptions need."""
        parts = WatchedPart.RUNS if self.tasks else WatchedPart(0)
        for topic in self.topics:
            parts |= TOPICS[topic].part
        return parts


def _short_ids(prefixes: Iterable[str], kind: str) -> Iterator[bytes]:
    """Yield the short ids in prefixes that start with `kind`, such as `task/`."""
    for prefix in prefixes:
        digits = prefix.removeprefix(kind)
        if digits != prefix and is_public_id(digits):
            yield bytes.fromhex(digits)
