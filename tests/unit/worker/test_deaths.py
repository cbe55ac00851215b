"""Deaths in words."""

from __future__ import annotations

import pytest

from scaler.worker.deaths import how_it_ended


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [(0, "exit code 0"), (7, "exit code 7"), (-9, "signal SIGKILL"), (-99, "signal 99")],
)
def test_exit_codes_are_named(exit_code: int, text: str) -> None:
    assert how_it_ended(exit_code) == text
