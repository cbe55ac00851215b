"""Bins: what each worker did in each second of the last half hour.

Memory does not grow with the number of tasks. Sans I/O; times are seconds since 1970 by the clock of the scheduler.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence

from scaler.wire.messages.monitor import BIN_ROW, StateBins, whole_rows

SECONDS = 1800
POINTS = 300
IDLE, SUCCESS, FAILED, CANCELED = range(4)
"""The kinds of bins: idle, or the worst outcome of the runs. A busy bin in which no run has ended is a `SUCCESS`."""
WORKERS_MOST = 20_000
_REWRITES_MOST = 30
_UNITS = 50
"""The unit of busy time is a second divided by this number."""


class _Lane:
    __slots__ = ("busy", "canceled", "ended", "failed", "function", "last", "rewrites")

    def __init__(self) -> None:
        self.busy = bytearray(SECONDS)
        self.failed = bytearray(SECONDS)
        self.canceled = bytearray(SECONDS)
        self.ended = array("I", bytes(4 * SECONDS))
        self.function = array("H", bytes(2 * SECONDS))
        self.last = 0
        self.rewrites: deque[tuple[int, int]] = deque(maxlen=_REWRITES_MOST)
        """pairs: a second in which a message changed earlier bins, and the oldest bin that it changed"""

    def move_to(self, second: int) -> None:
        for late in range(max(self.last + 1, second - SECONDS + 1), second + 1):
            index = late % SECONDS
            self.busy[index] = self.failed[index] = self.canceled[index] = 0
            self.ended[index] = self.function[index] = 0
        self.last = max(self.last, second)


class Bins:
    """The bins of all workers: a ring of the last half hour for each worker."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[bytes, int], _Lane] = {}
        self.end = 0
        """the time after the newest bin, in seconds since 1970"""
        self.functions: list[bytes] = [b""]
        """the short ids of functions; a bin stores the position of its function in this list"""
        self._indexes: dict[bytes, int] = {b"": 0}
        self._all_workers = array("I", bytes(4 * SECONDS))

    def take(self, time_us: int, batch: Iterable[StateBins]) -> None:
        """Add what the workers did in the second before `time_us`."""
        second = time_us // 1_000_000
        for late in range(max(self.end, second - SECONDS + 1), second + 1):
            self._all_workers[late % SECONDS] = 0
        self.end = max(self.end, second + 1)
        for state in batch:
            for position, busy_ms, success, failed, canceled, other, function in whole_rows(BIN_ROW, state.bins):
                self._add((state.agent, position), second, busy_ms, (success, failed + other, canceled), function)

    def _add(self, key: tuple[bytes, int], second: int, busy_ms: int, ends: Sequence[int], function: bytes) -> None:
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= WORKERS_MOST:
                self._drop_oldest()
            lane = self._lanes[key] = _Lane()
        lane.move_to(second)
        if second <= lane.last - SECONDS:
            return
        number = self._index_of(function)
        oldest = self._fill_busy(lane, second, busy_ms, number)
        if oldest < second:
            lane.rewrites.append((second, oldest))
        index = second % SECONDS
        success, failed, canceled = ends
        lane.failed[index] = min(255, lane.failed[index] + failed)
        lane.canceled[index] = min(255, lane.canceled[index] + canceled)
        lane.ended[index] += success + failed + canceled
        lane.function[index] = number

    def lose(self, key: tuple[bytes, int]) -> None:
        """Mark the last bin of a lost worker as failed, because the task that the worker executed is lost, too."""
        lane = self._lanes.get(key)
        if lane is not None:
            lane.failed[lane.last % SECONDS] = max(1, lane.failed[lane.last % SECONDS])
            lane.rewrites.append((self.end - 1, lane.last))

    def _fill_busy(self, lane: _Lane, second: int, busy_ms: int, function: int) -> int:
        """Add busy time to `second`, and the excess to the seconds before it. Return the oldest changed second."""
        oldest = second
        left = busy_ms * _UNITS // 1000
        while left > 0 and second > lane.last - SECONDS:
            index = second % SECONDS
            part = min(left, _UNITS - lane.busy[index])
            lane.busy[index] += part
            lane.function[index] = lane.function[index] or function
            self._all_workers[index] += part
            left -= part
            oldest = second
            second -= 1
        return oldest

    def _index_of(self, function: bytes) -> int:
        if not any(function):
            return 0
        index = self._indexes.get(function)
        if index is None:
            index = len(self.functions) if len(self.functions) < 65_535 else 0
            if index:
                self.functions.append(function)
                self._indexes[function] = index
        return index

    def _drop_oldest(self) -> None:
        for key in sorted(self._lanes, key=lambda key: self._lanes[key].last)[: WORKERS_MOST // 10]:
            del self._lanes[key]

    def keys(self) -> list[tuple[bytes, int]]:
        """Return the keys of workers with bins: the short id of the agent, and the position of the worker."""
        return list(self._lanes)

    def changed_since(self, key: tuple[bytes, int], second: int) -> int:
        """Return the oldest bin that changed at `second` or later; `second` if no earlier bin has changed since."""
        lane = self._lanes.get(key)
        if lane is None or not lane.rewrites:
            return second
        if len(lane.rewrites) == _REWRITES_MOST and lane.rewrites[0][0] >= second:
            return second - SECONDS
        return min([second, *(oldest for at, oldest in lane.rewrites if at >= second)])

    def read(self, key: tuple[bytes, int], start: int, step: int, count: int) -> tuple[str, str]:
        """Return two texts with a character per bin of a worker: how busy it was (in tenths), and the worst outcome."""
        lane = self._lanes.get(key)
        if lane is None:
            return "0" * count, "0" * count
        oldest = max(lane.last, self.end - 1) - SECONDS
        busy, ends = [], []
        for first in range(start, start + step * count, step):
            seconds = [second % SECONDS for second in range(first, first + step) if oldest < second <= lane.last]
            tenths = sum(lane.busy[index] for index in seconds) * 10 // (_UNITS * step)
            kind = IDLE
            if any(lane.failed[index] for index in seconds):
                kind = FAILED
            elif any(lane.canceled[index] for index in seconds):
                kind = CANCELED
            elif any(lane.ended[index] or lane.busy[index] for index in seconds):
                kind = SUCCESS
            busy.append("0123456789a"[min(tenths, 10)] if tenths or kind == IDLE else "1")
            ends.append(str(kind))
        return "".join(busy), "".join(ends)

    def read_all(self, workers: int, start: int, step: int, count: int) -> str:
        """Return how busy all workers together were, in tenths, as a text with a character for each bin."""
        text = []
        most = max(1, workers * _UNITS * step)
        for first in range(start, start + step * count, step):
            seconds = [second for second in range(first, first + step) if self.end - SECONDS <= second < self.end]
            tenths = round(sum(self._all_workers[second % SECONDS] for second in seconds) * 10 / most)
            text.append("0123456789a"[min(tenths, 10)])
        return "".join(text)

    def functions_of(self, key: tuple[bytes, int], start: int, end: int) -> dict[bytes, float]:
        """Return the functions that kept a worker busy from `start` to `end`, each with its busy seconds."""
        lane = self._lanes.get(key)
        found: dict[bytes, float] = {}
        if lane is not None:
            for second in range(max(start, lane.last - SECONDS + 1), min(end, lane.last + 1)):
                function = self.functions[lane.function[second % SECONDS]]
                if function:
                    found[function] = found.get(function, 0.0) + lane.busy[second % SECONDS] / _UNITS
        return found
