"""The process that requests the capacity of an engine."""

from __future__ import annotations

import pytest

from scaler.executors.engines.probe import ask_capacity


def forty(engine: str) -> int:
    print("other words")
    return 40 if engine == "some://where" else 0


@pytest.mark.processes
@pytest.mark.parametrize(
    ("function", "engine", "capacity"),
    [("forty", "some://where", 40), ("forty", "some://where/else", 0), ("nothing", "some://where", None)],
)
def test_the_probe_returns_the_capacity_of_the_engine_or_none(function: str, engine: str, capacity: int | None) -> None:
    assert ask_capacity(f"tests.unit.executors.engines.test_probe:{function}", engine) == capacity
