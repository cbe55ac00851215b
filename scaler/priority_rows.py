"""PriorityRows: waiting items by priority: for each priority a collection of items, here called a row; the highest
first.

Used by the policies of the scheduler and by the queues of workers. Nearly always all items have one priority, and one
dictionary look-up finds their row. A row is any collection that can be empty: a list, a deque, a level of a policy.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sized
from typing import TypeVar

Row = TypeVar("Row", bound=Sized)


class PriorityRows(dict[int, Row]):
    """Maps each priority to its row. Looking up a priority without a row creates the row by `new_row`."""

    def __init__(self, new_row: Callable[[], Row]) -> None:
        super().__init__({0: new_row()})
        self._new_row = new_row
        self.priorities = [0]
        """the priorities of all rows, in ascending order; `first` drops empty rows from the end, but keeps one row"""

    def __missing__(self, priority: int) -> Row:
        insort(self.priorities, priority)
        row = self[priority] = self._new_row()
        return row

    def first(self) -> Row:
        """Return the row with the highest priority that is not empty. If all rows are empty, return an empty row."""
        priorities = self.priorities
        row = self[priorities[-1]]
        while not row and len(priorities) > 1:
            del self[priorities.pop()]
            row = self[priorities[-1]]
        return row

    def in_order(self) -> Iterator[Row]:
        """Yield all rows, the highest priority first."""
        return (self[priority] for priority in reversed(self.priorities))
