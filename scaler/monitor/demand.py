"""Demand: how many workers a scheduler could use now, from what its monitor stream says."""

from __future__ import annotations

import math

from scaler.monitor.model import Model

TARGET_SECONDS = 5.0
"""In what time the open work should be done. Less means more workers for a short time."""


def wanted_workers(model: Model, target_seconds: float = TARGET_SECONDS) -> int:
    """Return how many workers would do the open tasks in this time: at most one for each task.

    Tasks of a function that nobody has measured yet count as long ones: one worker for each.

    Args:
        target_seconds: in what time the work should be done.
    """
    state = model.scheduler
    if state is None:
        return 0
    seconds, counted = 0.0, 0
    for function in model.functions.values():
        tasks = function.waiting + function.running
        seconds += tasks * (function.mean_us / 1e6 or target_seconds)
        counted += tasks
    tasks = state.waiting + state.running
    seconds += max(0, tasks - counted) * target_seconds
    return min(tasks, math.ceil(seconds / target_seconds))
