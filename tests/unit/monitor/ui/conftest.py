"""A feed state that takes the news of the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler.monitor.ui.feed import FeedState
from tests.support import monitored

Hear = Callable[..., FeedState]


@pytest.fixture
def state() -> FeedState:
    return FeedState("tcp://127.0.0.1:2345")


@pytest.fixture
def hear(state: FeedState) -> Hear:
    """`hear("workers", agent(row()), now=3.0, time_us=...)`."""

    def say(topic: str, *items: Any, now: float = 1.0, **fields: Any) -> FeedState:
        state.take(monitored.news(topic, *items, **fields), now)
        return state

    return say
