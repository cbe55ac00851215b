"""TopView: what the user has chosen to see. Keys change it, and frames are drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scaler.monitor.views import catalog
from scaler.monitor.views.rows import turned
from scaler.monitor.views.view import View

WORKERS, FAILURES, HOSTS = "workers", "failures", "hosts"
VIEWS = tuple(catalog.VIEWS)[:12]
"""The names of the views of the terminal. The first ten have the keys 1 to 9 and 0."""
NUMBERS = dict(zip("1234567890", VIEWS, strict=False))
CADENCES = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Target:
    """A thing whose details can be shown."""

    kind: str
    """the `singular` of a view, such as worker or task"""
    key: Any


@dataclass
class TopView:
    """The user's choices. A selection names a thing, not a row, so the thing stays selected when the order changes."""

    name: str = WORKERS
    sorts: dict[str, str] = field(default_factory=dict)
    """by view: the chosen order of its rows, as in `View.sort`"""
    filter: str = ""
    is_typing: bool = False
    selected: dict[str, object] = field(default_factory=dict)
    """by table: the key of the chosen row"""
    top: dict[str, int] = field(default_factory=dict)
    """by table: the position of the first visible row"""
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

    @property
    def table(self) -> View:
        """The view whose rows are shown: the hosts also if workers are shown by host."""
        return catalog.VIEWS[HOSTS if self.name == WORKERS and self.by_host else self.name]

    @property
    def sort(self) -> str:
        """The order of the rows."""
        return self.sorts.get(self.name, self.table.sort)

    def sort_by(self, column: str) -> None:
        """Sort by a column. If the rows are already sorted by this column, reverse the order."""
        self.sorts[self.name] = turned(self.table, self.sort, column)
