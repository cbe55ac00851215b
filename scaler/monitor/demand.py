"""Demand: how many workers a scheduler could use now, from what its monitor stream says."""

from __future__ import annotations

import math

from scaler.monitor.model import Model

TARGET_SECONDS = 5.0
"""In what time the open work should be done. Less means more workers for a short time."""


def wanted_by_capabilities(model: Model, target_seconds: float = TARGET_SECONDS) -> dict[str, int]:
    """Return how many workers would do the open tasks in this time, by what the tasks ask for, such as `gpu=1`; an
    empty text is for those that ask for nothing. A worker of `gpu=1` is a place where a task has that.

    There is at most one for each task. Tasks of a function that nobody has measured yet count as long ones.

    Args:
        target_seconds: in what time the work should be done.
    """
    state = model.scheduler
    if state is None:
        return {}
    seconds, counted = 0.0, 0
    for function in model.functions.values():
        tasks = function.waiting + function.running
        seconds += tasks * (function.mean_us / 1e6 or target_seconds)
        counted += tasks
    tasks = state.waiting + state.running
    seconds += max(0, tasks - counted) * target_seconds
    wanted = {}
    for text, asked in model.asked.items():
        asking = asked.waiting + asked.running
        asked_seconds = asking * (asked.ms / 1000 or target_seconds)
        wanted[text] = _workers(asking, asked_seconds, target_seconds)
        tasks, seconds = tasks - asking, seconds - asked_seconds
    return {"": _workers(tasks, seconds, target_seconds), **wanted}


def _workers(tasks: int, seconds: float, target_seconds: float) -> int:
    return max(0, min(tasks, math.ceil(round(seconds / target_seconds, 6))))
