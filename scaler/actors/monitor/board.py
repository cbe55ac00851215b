"""Board: the monitor's door to its viewers, and to the clock and the meters of its process.

The edge of the monitor stream implements it (`scaler/scheduler/monitor_edge.py`). Must never: raise because of a
viewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

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

    def gauges(self) -> Gauges:
        """Return what the system says now, and for times since the last call."""
