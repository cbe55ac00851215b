"""Board: where the monitor publishes items, and what it reads of the scheduler and its process.

The edge of the monitor stream implements `Board` (`scaler/scheduler/monitor_edge.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from scaler.actors.insight.output_table import OutputTable
from scaler.actors.jobs.job_catalog import SeenJobs
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.vocabulary.directory import Directory
from scaler.actors.vocabulary.events import Events
from scaler.ids import SchedulerId, public_id
from scaler.kit import ActorRef
from scaler.wire.session.traffic import Traffic

Shown: TypeAlias = tuple[Sequence[Any], int, int]
"""The items of a topic, the number of things that the items show, and the number of things that exist."""


@dataclass(frozen=True)
class About:
    """Facts about a scheduler that do not change while it runs."""

    address: str
    package_version: str
    started_us: int
    """when the scheduler started, in microseconds since 1970"""
    queue_size: int
    """the most tasks that one worker may have"""


class Gauges(NamedTuple):
    """Figures of the operating system about the scheduler's process; 0 if unknown."""

    cpu_permille: int = 0
    rss_bytes: int = 0
    free_bytes: int = 0
    lag_us: int = 0
    lag_most_us: int = 0
    machine_load: float = 0.0
    """the number of processes that run or wait for a processor of the scheduler's machine, as a mean of a minute"""
    cores: int = 0
    """the number of processors that the scheduler may use"""


@dataclass(frozen=True)
class Sources:
    """The parts of the scheduler that the monitor reads."""

    scheduler_id: SchedulerId
    directory: Directory
    objects: ObjectTable
    events: Events
    sent: Traffic
    received: Traffic
    balancer: ActorRef
    outputs: OutputTable
    jobs: SeenJobs

    @property
    def short_id(self) -> bytes:
        """The short id of this run of the scheduler."""
        return public_id(self.scheduler_id)


class Board(Protocol):
    """The place where the monitor publishes items. Errors of viewers are never raised here."""

    @property
    def about(self) -> About: ...

    def prefixes(self) -> Iterable[str]:
        """Return the subscriptions of all viewers: prefixes of topics."""

    def publish(self, topic: str, items: Sequence[Any], shown: int, total: int) -> None:
        """Publish items to the subscribers of a topic. The items show a number of things (`shown`) out of `total`."""

    def time_us(self) -> int:
        """Return the current time in microseconds since 1970."""

    def read_traceback(self, payload: bytes) -> str:
        """Return the end of the traceback in the payload of a failed run; empty if the payload has no traceback."""

    def read_failure(self, payload: bytes) -> str:
        """Return the error of a failed run, from its payload; empty if the payload cannot be read."""

    def gauges(self) -> Gauges:
        """Return the current gauges. Rates are averages since the last call of `gauges`."""
