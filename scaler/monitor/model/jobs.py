"""JobRates: how many rows per second of each job end, and an estimate of the remaining time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from scaler.monitor import units
from scaler.wire.messages.monitor import StateJob

WINDOW_US = 10_000_000

OPEN, PAUSED = "open", "paused"


class JobRates:
    """Counts how many rows of each job ended in the last seconds."""

    def __init__(self) -> None:
        self._seen: dict[bytes, deque[tuple[int, int]]] = {}
        """by job: the time of each recent snapshot, and the number of rows that had ended then"""

    def update(self, jobs: Iterable[StateJob], now_us: int) -> None:
        """Add a snapshot of all jobs."""
        seen = {}
        for job in jobs:
            points = self._seen.get(job.job) or deque(maxlen=60)
            ended = job.done + job.failed
            if points and ended < points[-1][1]:
                points.clear()  # failed rows are open again
            points.append((now_us, ended))
            while len(points) > 2 and points[0][0] < now_us - WINDOW_US:
                points.popleft()
            seen[job.job] = points
        self._seen = seen

    def per_second(self, job: StateJob) -> float | None:
        """Return how many rows of a job end per second; None if the rate is unknown, or the job is not open."""
        points = self._seen.get(job.job, deque())
        if job.state != OPEN or len(points) < 2 or points[-1][0] <= points[0][0]:
            return None
        return 1e6 * (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def left_seconds(self, job: StateJob) -> float | None:
        """Return the estimated remaining seconds of a job; None if they are unknown."""
        rate = self.per_second(job)
        return (job.rows - job.done - job.failed) / rate if rate and job.all_rows_known else None

    def left(self, job: StateJob) -> str:
        """Return the estimated remaining time of a job as text: `~2 min`, or `-` if it is unknown."""
        seconds = self.left_seconds(job)
        return units.UNKNOWN if seconds is None else units.about(seconds)


def state_of(job: StateJob) -> str:
    """Return the state of a job as text."""
    if job.state == OPEN and not job.all_rows_known:
        return "rows missing"
    return job.state if job.state != OPEN or not job.reason else "waits"
