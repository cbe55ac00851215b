from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeAlias

import pytest

from scaler import AsyncClient
from scaler.shared_memory import SHARING_VARIABLE
from tests.support.fake_scheduler import FakeScheduler

Use: TypeAlias = Callable[[Callable[[AsyncClient], Coroutine[Any, Any, None]]], None]

SECONDS = 30.0


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeScheduler]:
    monkeypatch.setenv(SHARING_VARIABLE, "0")  # it reads no memory of clients
    with FakeScheduler() as scheduler:
        yield scheduler


@pytest.fixture
def use(scheduler: FakeScheduler) -> Use:
    """Run a test in a loop of its own, with a client of the scheduler."""

    async def with_client(test: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
        async with AsyncClient(scheduler.address, heartbeat_interval_seconds=0.02) as client:
            await asyncio.wait_for(test(client), SECONDS)

    return lambda test: asyncio.run(with_client(test))
