"""Ages, as users write them for `keep_for`."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.client.jobs.ages import seconds_of
from scaler.config import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (90, 90),
        ("90", 90),
        ("90s", 90),
        ("1.5h", 5400),
        ("30d", 2_592_000),
        ("1 w", 604_800),
        (0, 0),
        ("1y", 31_536_000),
        ("ever", 2**40),
        (float("inf"), 2**40),
        (None, None),
    ],
)
def test_ages_are_seconds(text: float | str | None, seconds: float | None) -> None:
    assert seconds_of("keep_for", text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1d", "1mo", "never", "", -1, float("nan"), True, b"1d", [1]])
def test_texts_that_are_no_ages_are_refused(text: Any) -> None:
    with pytest.raises(ConfigError, match="keep_for"):
        seconds_of("keep_for", text)
