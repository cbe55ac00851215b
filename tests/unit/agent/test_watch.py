from __future__ import annotations

import pytest

from scaler.agent.ledger import Ledger
from scaler.agent.watch import LEAST_SECONDS, Watch


@pytest.fixture
def watch() -> Watch:
    return Watch("host", "processes", (), 1, Ledger())


@pytest.mark.parametrize(("asked_ms", "seconds"), [(1, LEAST_SECONDS), (2500, 2.5), (0, 0.0)])
def test_no_scheduler_has_an_agent_report_all_the_time(watch: Watch, asked_ms: int, seconds: float) -> None:
    watch.ask(asked_ms, 0)
    assert watch.interval_seconds == seconds
