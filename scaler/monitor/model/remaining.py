"""Remaining work: an estimate of how long the open tasks will take, and how many workers they could use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from scaler.monitor import units
from scaler.wire.messages.monitor import StateWaiting
from scaler.wire.messages.vocabulary import INPUTS, NOT_ABLE

TARGET_SECONDS = 5.0
"""The time within which the open work should be done. A shorter time requires more workers."""
_UNKNOWN_PART = 0.05
"""There is an estimate if the tasks of unknown duration are at most this fraction of the tasks of known duration."""


def never(waiting: Sequence[StateWaiting]) -> str:
    """Return which tasks no worker can run, such as `40 need tpu=1`; empty if workers can run all tasks."""
    groups = [each for each in waiting if each.waits_for == NOT_ABLE and each.waiting]
    return ", ".join(
        f"{each.waiting:,} need{'s' * (each.waiting == 1)} {each.asks or 'another worker'}" for each in groups
    )


class RemainingWork:
    """An estimate of how long the open tasks will take.

    The estimate is the longest of several times: for each group, its time on the workers that can run its tasks; and
    the time of all groups on all workers. Tasks that no worker can run are ignored, unless only such tasks are open.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self.seconds: float | None = None
        """the estimate; None if durations are unknown, or if it differs from the last one by a factor of more than 2
        and is not below 1 s
        """
        self.never = ""
        """the tasks that no worker can run, if only such tasks are open"""

    def update(self, waiting: Sequence[StateWaiting], workers: int) -> None:
        """Update the estimate from the present groups of open tasks, and from the number of workers."""
        able = [each for each in waiting if each.places]
        unknown = sum(each.unmeasured for each in able)
        known = sum(each.waiting + each.running for each in able) - unknown
        self.never = "" if known + unknown else never(waiting)
        times = [each.work_us / each.places for each in able]
        times.append(sum(each.work_us for each in able) / max(1, workers))
        is_known = able and unknown <= known * _UNKNOWN_PART
        seconds = max(times) / 1e6 if is_known else None
        last, self._last = self._last, seconds
        is_steady = seconds is not None and (last is None or last / 2 <= seconds <= last * 2 or seconds < 1)
        self.seconds = (seconds or None) if is_steady else None

    @property
    def text(self) -> str:
        """The estimate as text: `~2 min`, `never, 40 need tpu=1`, or empty."""
        if self.seconds is None:
            return f"never, {self.never}" if self.never else ""
        return units.about(self.seconds)


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
