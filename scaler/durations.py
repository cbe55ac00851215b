"""Durations: estimates the run time of tasks from ended tasks of the same function.

Used by the scheduler and by the slots of workers to decide how many tasks to prefetch, and by maps and jobs to decide
how many rows travel together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from scaler.ids import ObjectId


def moving_mean(mean: float | None, batch_total: float, batch_count: int) -> float:
    """Return the mean after `batch_count` more values, whose sum is `batch_total`. Recent values weigh most.

    The mean rises fast and falls slowly: a mean that is too small makes tasks wait, while one that is too great only
    costs a round trip.
    """
    batch_mean = batch_total / batch_count
    if mean is None:
        return batch_mean
    weight = 0.5 if batch_mean > mean else min(0.5, 0.1 * batch_count)
    return mean + weight * (batch_mean - mean)


class Durations:
    """Mean durations, in microseconds, of the `most` functions that ran last. Each call takes constant time."""

    def __init__(self, unknown_us: float, most: int) -> None:
        self._unknown_us = unknown_us
        self._most = most
        self._means_us: OrderedDict[ObjectId, float] = OrderedDict()
        self._distrusted: set[ObjectId] = set()

    def __len__(self) -> int:
        return len(self._means_us)

    def learn(self, function_id: ObjectId, total_us: float, count: int) -> None:
        """Add the durations of `count` tasks of a function, at least one task. `total_us`: the sum of the durations."""
        means_us = self._means_us
        means_us[function_id] = moving_mean(means_us.get(function_id), total_us, count)
        means_us.move_to_end(function_id)
        self._distrusted.discard(function_id)
        if len(means_us) > self._most:
            self._distrusted.discard(means_us.popitem(last=False)[0])

    def distrust(self, function_id: ObjectId) -> None:
        """Treat a function as unknown until its next task ends. Called when a task runs longer than expected."""
        if function_id in self._means_us:
            self._distrusted.add(function_id)

    def forget(self, function_ids: Iterable[ObjectId]) -> None:
        """Forget the functions with these ids; unknown ids are ignored."""
        for function_id in function_ids:
            self._means_us.pop(function_id, None)
            self._distrusted.discard(function_id)

    def known_us(self, function_id: ObjectId) -> float:
        """Return the mean duration of a function; 0 if the function is unknown or distrusted."""
        return 0.0 if function_id in self._distrusted else self._means_us.get(function_id, 0.0)

    def expected_us(self, function_id: ObjectId) -> float:
        """Return the expected duration of one more task of a function."""
        mean_us = self._means_us.get(function_id)
        return self._unknown_us if mean_us is None or function_id in self._distrusted else mean_us
