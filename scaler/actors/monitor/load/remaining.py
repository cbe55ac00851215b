"""RemainingTime: an estimate of how long the open tasks will take."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.wire.messages.monitor import StateWaiting
from scaler.wire.messages.vocabulary import NOT_ABLE

_UNKNOWN_PART = 0.05
"""There is an estimate if the tasks of unknown duration are at most this fraction of the tasks of known duration."""


def never(waiting: Sequence[StateWaiting]) -> str:
    """Return which tasks no worker can run, such as `40 need tpu=1`; empty if workers can run all tasks."""
    groups = [each for each in waiting if each.waits_for == NOT_ABLE and each.waiting]
    return ", ".join(
        f"{each.waiting:,} need{'s' * (each.waiting == 1)} {each.asks or 'another worker'}" for each in groups
    )


class RemainingTime:
    """An estimate of how long the open tasks will take.

    The estimate is the longest of several times: for each group, its time on the workers that can run its tasks; the
    time of all groups on all workers; and the time that all tasks take at the rate of the last minute. Tasks that no
    worker can run are ignored.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self.seconds: float | None = None
        """the estimate; None if durations are unknown, or if it differs from the last one by a factor of more than 2
        and is not below 1 s
        """

    def update(self, waiting: Sequence[StateWaiting], workers: int, per_second: float | None) -> None:
        """Update the estimate from the present groups of open tasks, the number of workers, and the recent rate."""
        able = [each for each in waiting if each.places]
        unknown = sum(each.unmeasured for each in able)
        tasks = sum(each.waiting + each.running for each in able)
        times = [each.work_us / each.places / 1e6 for each in able]
        times.append(sum(each.work_us for each in able) / max(1, workers) / 1e6)
        if per_second:
            times.append(tasks / per_second)
        is_known = able and unknown <= (tasks - unknown) * _UNKNOWN_PART
        seconds = max(times) if is_known else None
        last, self._last = self._last, seconds
        is_steady = seconds is not None and (last is None or last / 2 <= seconds <= last * 2 or seconds < 1)
        self.seconds = (seconds or None) if is_steady else None
