from __future__ import annotations

from collections.abc import Iterator

import pytest

from scaler.client import Client
from tests.support.fake_scheduler import FakeScheduler


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with FakeScheduler() as fake:
        yield fake


@pytest.fixture
def client(scheduler: FakeScheduler) -> Iterator[Client]:
    with Client(scheduler.address, timeout_seconds=30) as one:
        yield one
