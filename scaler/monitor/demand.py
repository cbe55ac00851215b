"""Demand: how many workers a scheduler could use now, from what its monitor stream says."""

from __future__ import annotations

import math

from scaler.monitor.model.model import Model
from scaler.wire.messages.reasons import INPUTS

TARGET_SECONDS = 5.0
"""In what time the open work should be done. Less means more workers for a short time."""


def wanted_by_capabilities(model: Model, target_seconds: float = TARGET_SECONDS) -> dict[str, int]:
    """Return how many workers would do the open tasks in this time, by what the tasks ask for, such as `gpu=1`; an
    empty text is for those that ask for nothing. A worker of `gpu=1` is a place where a task has that.

    There is at most one for each task. Tasks of a function that nobody has measured yet count as long ones.

    Args:
        target_seconds: in what time the work should be done.
    """
    wanted = {}
    for each in model.waiting:
        if each.waits_for != INPUTS:
            tasks = each.waiting + each.running
            seconds = each.work_us / 1e6 + each.unmeasured * target_seconds
            wanted[each.asks] = _workers(tasks, seconds, target_seconds)
    return wanted


def _workers(tasks: int, seconds: float, target_seconds: float) -> int:
    return max(0, min(tasks, math.ceil(round(seconds / target_seconds, 6))))
