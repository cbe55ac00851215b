"""Gauges: CPU time, memory and loop delay of the scheduler's process, and the load of its machine.

The delay is measured ten times a second, only while viewers are connected.
"""

from __future__ import annotations

import os
import time
from collections import deque

from scaler.actors.monitor import Gauges
from scaler.process.loop import Cancellable, EventLoop
from scaler.process.memory import resident_bytes
from scaler.process.meters import host_free_bytes

LOOK_SECONDS = 0.1
LOOKS_MOST = 100
"""The most measurements of the delay that are kept: those of the last ten seconds."""


class ProcessGauges:
    """Measures CPU time, memory and the delay of the event loop of this process."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._timer: Cancellable | None = None
        self._due = 0.0
        self._late: deque[float] = deque(maxlen=LOOKS_MOST)
        self._last = (time.monotonic(), time.process_time())

    def start(self) -> None:
        """Start measuring the delay. Idempotent."""
        if self._timer is None:
            self._schedule_sample()

    def stop(self) -> None:
        """Stop measuring the delay. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._late.clear()

    def _schedule_sample(self) -> None:
        self._due = self._loop.time() + LOOK_SECONDS
        self._timer = self._loop.call_at(self._due, self._sample)

    def _sample(self) -> None:
        self._late.append(max(0.0, self._loop.time() - self._due))
        self._schedule_sample()

    def read(self) -> Gauges:
        """Return the memory that is used now, and the CPU time and the delays since the last call."""
        now, cpu = time.monotonic(), time.process_time()
        (before, cpu_before), self._last = self._last, (now, cpu)
        permille = round(1000 * (cpu - cpu_before) / (now - before)) if now > before else 0
        late = sorted(self._late)
        self._late.clear()
        lags = _share(late, 0.5), _share(late, 0.95)
        cores = len(os.sched_getaffinity(0))
        return Gauges(permille, resident_bytes(), host_free_bytes(), *lags, os.getloadavg()[0], cores)


def _share(late: list[float], share: float) -> int:
    """Return the quantile `share` of sorted delays. The delays are in seconds, the result is in microseconds."""
    return int(late[min(len(late) - 1, int(share * len(late)))] * 1e6) if late else 0
