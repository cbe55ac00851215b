from __future__ import annotations

import pytest

from scaler.monitor.wanted import matches


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [("", True), ("ROME", True), ("paris", False), ("!paris", True), ("!rome", False), ("!", True), ("host", True)],
)
def test_a_filter_is_a_part_of_any_text(wanted: str, passes: bool) -> None:
    assert matches(wanted, ["rome07:1", "a Host"]) is passes
