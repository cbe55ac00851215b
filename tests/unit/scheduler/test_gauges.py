"""The lag of the event loop of the scheduler, while a viewer watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from scaler.scheduler.gauges import LOOK_SECONDS, ProcessGauges

LATE_SECONDS = 0.2


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def be_late(loop: asyncio.AbstractEventLoop) -> None:
    """Block the loop beyond the next measurement of the gauges, and run that."""
    ends_at = time.monotonic() + LOOK_SECONDS + LATE_SECONDS
    while time.monotonic() < ends_at:
        pass
    loop.call_soon(loop.call_soon, loop.stop)
    loop.run_forever()


def test_the_lag_of_the_loop_is_measured_from_one_reading_to_the_next(loop: asyncio.AbstractEventLoop) -> None:
    gauges = ProcessGauges(loop)
    gauges.start()
    gauges.start()
    be_late(loop)
    first = gauges.read()
    assert first.lag_most_us >= 1e6 * LATE_SECONDS
    assert first.cpu_permille > 0
    assert first.rss_bytes > 0
    assert gauges.read().lag_most_us == 0, "it was told before"
    gauges.stop()


def test_the_lag_of_the_loop_is_not_measured_after_stop(loop: asyncio.AbstractEventLoop) -> None:
    gauges = ProcessGauges(loop)
    gauges.start()
    gauges.stop()
    gauges.stop()
    be_late(loop)
    assert gauges.read().lag_most_us == 0
