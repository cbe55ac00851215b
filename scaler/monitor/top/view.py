"""TopView: what the user has chosen to see. Keys change it, and frames are drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

VIEWS = ("workers", "functions", "clients", "failures", "hosts", "events", "jobs", "objects")
WORKERS, FUNCTIONS, CLIENTS, FAILURES, HOSTS, EVENTS, JOBS, OBJECTS = VIEWS
CADENCES = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Target:
    """A thing whose details can be shown."""

    kind: str
    """worker, function, client, failure, host, event, job, object or task"""
    key: Any


@dataclass
class TopView:
    """The user's choices. A selection names a thing, not a row, so the thing stays selected when the order changes."""

    name: str = WORKERS
    sort: str = "name"
    is_reversed: bool = False
    filter: str = ""
    is_typing: bool = False
    selected: dict[str, object] = field(default_factory=dict)
    """by view: the key of the chosen row"""
    top: dict[str, int] = field(default_factory=dict)
    """by view: the position of the first visible row"""
    column: int = 0
    """the number of columns scrolled out of view"""
    details: list[Target] = field(default_factory=list)
    """the things whose details are open; the details of the last thing are shown"""
    line: int = 0
    """the position of the chosen line of the details"""
    is_paused: bool = False
    per_second: bool = False
    by_host: bool = False
    is_help: bool = False
    cadence: float = 1.0

    def show(self, name: str) -> None:
        """Show another view."""
        self.name = name
        self.details = []
        self.line = 0
        self.is_help = False

    def sort_by(self, column: str) -> None:
        """Sort by a column. If the rows are already sorted by this column, reverse the order."""
        self.is_reversed = not self.is_reversed if column == self.sort else False
        self.sort = column

    @property
    def is_by_host(self) -> bool:
        """Whether each row shows a host."""
        return self.name == HOSTS or (self.name == WORKERS and self.by_host)
