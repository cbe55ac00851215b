"""Outputs: on the topic `task/ID`: the lines that a task has written.

Used by the monitor, which asks for tasks that viewers look at, and for no others. Must never: say more than its bound
at once.
"""

from __future__ import annotations

from collections.abc import Collection

from scaler.actors.insight.output_table import KeptLine, OutputTable
from scaler.wire.messages.monitor import StateLine

SHOWN_MOST = 200
"""So many lines of a task are said at once: the last ones."""


class Outputs:
    """What was said of the tasks that viewers look at."""

    def __init__(self, table: OutputTable) -> None:
        self._table = table
        self._said: dict[bytes, int] = {}
        """short id -> the number of the last line that was said"""

    def keep_only(self, short_ids: Collection[bytes]) -> None:
        """Viewers look at these, and at no others."""
        self._said = {short_id: number for short_id, number in self._said.items() if short_id in short_ids}

    def items(self, short_id: bytes, is_first: bool) -> list[StateLine]:
        """Return the lines of a task that are new, or at first the last ones."""
        task_id = self._table.id_of(short_id)
        if task_id is None:
            return []
        lines = self._table.after(task_id, 0 if is_first else self._said.get(short_id, 0))
        if not lines:
            return []
        self._said[short_id] = lines[-1].number
        skipped = lines[:-SHOWN_MOST]
        dropped = len(skipped) + sum(line.dropped for line in skipped)
        return [_item(short_id, line, 0 if place else dropped) for place, line in enumerate(lines[-SHOWN_MOST:])]


def _item(short_id: bytes, line: KeptLine, dropped: int) -> StateLine:
    return StateLine(short_id, line.number, line.time_us, line.stream, dropped + line.dropped, line.worker, line.text)
