"""Wanted workers: how many workers the open tasks could use."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scaler.wire.messages.monitor import StateWaiting
from scaler.wire.messages.vocabulary import INPUTS

TARGET_SECONDS = 5.0
"""The time within which the open work should be done. A shorter time requires more workers."""


def wanted_by_capabilities(waiting: Iterable[StateWaiting], target_seconds: float = TARGET_SECONDS) -> dict[str, int]:
    """Return how many workers would finish the open tasks in time, by the requested capabilities.

    The key is a text such as `gpu=1`; it is empty for tasks that request no capabilities. A worker with `gpu=1` runs
    one such task at a time. Each number is at most the number of tasks. A task of unknown duration counts as
    `target_seconds`.
    """
    wanted = {}
    for each in waiting:
        if each.waits_for != INPUTS:
            tasks = each.waiting + each.running
            seconds = each.work_us / 1e6 + each.unmeasured * target_seconds
            wanted[each.asks] = max(0, min(tasks, math.ceil(round(seconds / target_seconds, 6))))
    return wanted
