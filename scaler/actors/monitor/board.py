"""Board: where the monitor shows what it has built, and what it reads of the scheduler and of its process.

The edge of the monitor stream implements it (`scaler/scheduler/monitor_edge.py`). Must never: raise because of a
viewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from scaler.actors.insight.events import Events
from scaler.actors.insight.output_table import OutputTable
from scaler.actors.jobs.job_catalog import SeenJobs
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.peers.directory import Directory
from scaler.ids import SchedulerId, public_id
from scaler.kit import ActorRef
from scaler.wire.session.traffic import Traffic

Shown: TypeAlias = tuple[Sequence[Any], int, int]
"""Items, how many things of the topic they are, and how many of these there are."""


@dataclass(frozen=True)
class About:
    """What does not change while a scheduler runs."""

    address: str
    package_version: str
    started_us: int
    """microseconds since 1970"""
    queue_size: int
    """the most tasks at one worker"""


class Gauges(NamedTuple):
    """What the system says of the scheduler's process; 0: unknown."""

    cpu_permille: int = 0
    rss_bytes: int = 0
    free_bytes: int = 0
    lag_us: int = 0
    lag_most_us: int = 0


@dataclass(frozen=True)
class Sources:
    """The parts of the scheduler that the monitor sees."""

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
    """Where the monitor puts what viewers see."""

    @property
    def about(self) -> About: ...

    def prefixes(self) -> Iterable[str]:
        """Return what viewers have subscribed to: the beginnings of topics."""

    def publish(self, topic: str, items: Sequence[Any], shown: int, total: int) -> None:
        """Show items to those who have subscribed to the topic.

        Args:
            shown: how many things of the topic they are.
            total: how many of these there are, shown or not.
        """

    def time_us(self) -> int:
        """Return the microseconds since 1970."""

    def read_traceback(self, payload: bytes) -> str:
        """Return the end of the traceback in the payload of a failed run; empty if there is none."""

    def read_failure(self, payload: bytes) -> str:
        """Return what a failed run has raised, from its payload; empty if that cannot be read."""

    def gauges(self) -> Gauges:
        """Return what the system says now, and for times since the last call."""
