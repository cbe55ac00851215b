"""History: the activity of the whole cluster: half an hour in steps of a second, hours and a week in longer steps.

Sans I/O. Times are seconds since 1970 by the clock of the scheduler. Steps without messages are gaps, never 0.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence

SERIES = (
    "success",
    "failed",
    "canceled",
    "open",
    "workers",
    "busy",
    "cpu",
    "lag",
    "lag_most",
    "scheduler",
    "agents",
    "processors",
    "objects",
)
"""The names of the series: tasks per second, shares in cores, lags in seconds, sizes in bytes, and counts."""
_GREATEST = frozenset({"lag_most", "scheduler", "agents", "processors", "objects", "open"})
"""Series for which a longer step stores the greatest value of its shorter steps. Other series store the mean."""
RINGS = ((1, 1800), (10, 2160), (60, 10080))
"""For each ring: the seconds of a step, and the number of steps. The rings cover 30 minutes, 6 hours and 7 days."""
GAP = float("nan")
LATE_SECONDS = 2
"""The longest time between two messages that does not count as a gap. Messages may be late."""


class Ring:
    """The last values of all series, in steps of one length."""

    def __init__(self, step: int, length: int) -> None:
        self.step = step
        self.length = length
        self.end = 0
        """the number of the newest step (step 0 began in 1970); 0 if the ring is empty"""
        self._rows: dict[int, array[float]] = {}

    def put(self, number: int, row: Sequence[float]) -> None:
        """Store the values of a step. Steps that are never stored are gaps."""
        self._rows[number] = array("f", row)
        if number > self.end:
            for old in [key for key in self._rows if key <= number - self.length] if self.end else ():
                del self._rows[old]
            self.end = number

    @property
    def begin(self) -> int:
        """The number of the oldest step; 0 if the ring is empty."""
        return next(iter(self._rows), 0)

    def row(self, number: int) -> Sequence[float] | None:
        """Return the values of a step; None if the step is a gap."""
        return self._rows.get(number)

    def rows(self) -> Iterator[tuple[int, Sequence[float]]]:
        """Yield the number and the values of each step that has values, the oldest step first."""
        return iter(sorted(self._rows.items()))


class History:
    """A ring for each length of steps. A longer step is computed from shorter ones when all of these have ended.

    Args:
        kept: called for each longer step that has ended, with length, number and values, to store the step elsewhere.
    """

    def __init__(self, kept: Callable[[int, int, Sequence[float]], None] = lambda *_: None) -> None:
        self.rings = tuple(Ring(step, length) for step, length in RINGS)
        self._kept = kept

    @property
    def end(self) -> int:
        """The end of the newest second, in seconds since 1970."""
        return self.rings[0].end + 1

    def add(self, at: float, sample: Sequence[float]) -> None:
        """Add the values of one second."""
        second = int(at)
        first = self.rings[0]
        if second < first.end:
            return  # the clock was set back: wait until it has caught up
        before = first.end or second
        for late in range(before + 1, second if second - before <= LATE_SECONDS else 0):
            first.put(late, sample)
        first.put(second, sample)
        for shorter, longer in zip(self.rings, self.rings[1:], strict=False):
            for number in range(before // longer.step, second // longer.step):
                self._finish(shorter, longer, number)
                if number - before // longer.step > longer.length:
                    break

    def _finish(self, shorter: Ring, longer: Ring, number: int) -> None:
        each = longer.step // shorter.step
        rows = [row for row in (shorter.row(number * each + index) for index in range(each)) if row is not None]
        if rows and longer.row(number) is None:
            row = combined(rows)
            longer.put(number, row)
            self._kept(longer.step, number, row)

    def span(self, seconds: int, points: int, end: int | None = None) -> tuple[int, int, int]:
        """Return start, length and number (at most about `points`) of the steps for the `seconds` before `end` (None:
        now).
        """
        ring = next((ring for ring in self.rings if ring.step * ring.length >= seconds), self.rings[-1])
        step = max(ring.step, ring.step * math.ceil(seconds / ring.step / points))
        last = (self.end if end is None else end) // step
        count = max(1, seconds // step)
        return (last - count) * step, step, count

    def read(self, names: Sequence[str], start: int, step: int, count: int) -> dict[str, list[float | None]]:
        """Return the values of some series in steps of one length, by name; a gap is None."""
        positions = [SERIES.index(name) for name in names]
        columns: list[list[float | None]] = [[] for _ in names]
        for index in range(count):
            row = self._at(start + index * step, step)
            for column, position in zip(columns, positions, strict=True):
                value = GAP if row is None else row[position]
                column.append(None if math.isnan(value) else float(f"{value:.5g}"))
        return dict(zip(names, columns, strict=True))

    def _at(self, start: int, step: int) -> Sequence[float] | None:
        for ring in self.rings[::-1]:
            if ring.step <= step:
                each = step // ring.step
                number = start // ring.step
                rows = [row for row in (ring.row(number + index) for index in range(each)) if row is not None]
                if rows:
                    return combined(rows)
        # After a restart of the server, only longer steps are known of the time before.
        for ring in self.rings:
            if ring.step > step and not self._has_seconds(start // ring.step, ring.step):
                row = ring.row(start // ring.step)
                if row is not None:
                    return row
        return None

    def _has_seconds(self, number: int, step: int) -> bool:
        first = self.rings[0]
        return any(first.row(number * step + second) is not None for second in range(step))


def combined(rows: Sequence[Sequence[float]]) -> Sequence[float]:
    """Combine several rows into one row: the mean or the greatest value of each series, ignoring gaps."""
    if len(rows) == 1:
        return rows[0]
    result = array("f")
    for position, name in enumerate(SERIES):
        values = [row[position] for row in rows if not math.isnan(row[position])]
        if not values:
            result.append(GAP)
        else:
            result.append(max(values) if name in _GREATEST else sum(values) / len(values))
    return result
