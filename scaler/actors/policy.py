"""Where tasks go: pure functions and one plain data structure, without messages, so that they can be tested by
themselves.

Two decisions are made here: how many tasks a worker is given at a time (`window`), and which worker gets the next one
(`Places`).
"""

from __future__ import annotations

from typing import Generic, TypeVar

W = TypeVar("W")

WORK_AHEAD_SECONDS = 0.05
"""How much work a worker is given ahead. It hides the way from the scheduler and back, which is about a thousandth of
a second when idle and some hundredths under full load; what is given ahead cannot be given to another worker at
once."""

UNKNOWN_WINDOW = 1
"""The window of a worker whose tasks' duration is not known yet."""


def window(mean_seconds: float | None, queue_size: int) -> int:
    """Return how many tasks a worker takes at a time, the running one included.

    One while tasks are long, so that nothing waits behind a long task while another worker is free; more and more as
    they get shorter, so that the worker never waits for the next one.

    Args:
        mean_seconds: mean duration of its recent tasks; None if unknown.
        queue_size: the most that the user allows.
    """
    if mean_seconds is None:
        return min(UNKNOWN_WINDOW, queue_size)
    if mean_seconds * queue_size <= WORK_AHEAD_SECONDS:
        return queue_size
    return max(1, min(queue_size, round(WORK_AHEAD_SECONDS / mean_seconds)))


def moving_mean(mean_seconds: float | None, batch_seconds: float, batch_count: int) -> float:
    """Return the mean duration after `batch_count` more tasks took `batch_seconds` together; recent ones weigh most."""
    batch_mean = batch_seconds / batch_count
    if mean_seconds is None:
        return batch_mean
    weight = min(0.5, 0.1 * batch_count)
    return mean_seconds + weight * (batch_mean - mean_seconds)


class _Load:
    __slots__ = ("load", "window")

    def __init__(self, load: int, window_size: int) -> None:
        self.load = load
        self.window = window_size


class Places(Generic[W]):
    """Workers and their free places. Every operation takes constant time, however many workers there are.

    `_levels[n]` holds the workers that have n tasks and a free place.
    """

    def __init__(self) -> None:
        self._workers: dict[W, _Load] = {}
        self._levels: list[dict[W, None]] = [{}]
        self._lowest = 0

    def __len__(self) -> int:
        return len(self._workers)

    def __contains__(self, worker: W) -> bool:
        return worker in self._workers

    def join(self, worker: W, window_size: int, load: int = 0) -> None:
        """Add a worker, or set it anew."""
        self.leave(worker)
        self._workers[worker] = _Load(load, window_size)
        self._put(worker)

    def leave(self, worker: W) -> None:
        """Remove a worker, if it is there."""
        state = self._workers.pop(worker, None)
        if state is not None:
            self._take_out(worker, state.load)

    def free(self, worker: W, count: int, window_size: int) -> None:
        """`count` tasks of a worker have ended."""
        state = self._workers.get(worker)
        if state is None:
            return
        self._take_out(worker, state.load)
        state.load = max(0, state.load - count)
        state.window = window_size
        self._put(worker)

    def take(self) -> W | None:
        """Give a task to the worker with the fewest. Returns the worker, or None if nobody has a free place."""
        levels = self._levels
        while not levels[self._lowest]:
            if self._lowest + 1 == len(levels):
                return None
            self._lowest += 1
        worker, _ = levels[self._lowest].popitem()
        self._workers[worker].load += 1
        self._put(worker)
        return worker

    def load(self, worker: W) -> int:
        """Return how many tasks the worker has."""
        return self._workers[worker].load

    def _put(self, worker: W) -> None:
        state = self._workers[worker]
        level = state.load
        if level >= state.window:
            return
        while len(self._levels) <= level:
            self._levels.append({})
        self._levels[level][worker] = None
        self._lowest = min(self._lowest, level)

    def _take_out(self, worker: W, level: int) -> None:
        if level < len(self._levels):
            self._levels[level].pop(worker, None)
