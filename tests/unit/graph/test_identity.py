from __future__ import annotations

from scaler.graph.identity import identity


def test_it_returns_what_it_gets() -> None:
    value = object()
    assert identity(value) is value
