from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from scaler.monitor.views.field_types import BAR, BYTES, CLOCK, COUNT, NAME, SECONDS, SHARE, TYPES, FieldType

NOON = 1_795_000_000.0


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("kind", "value", "width", "text"),
    [
        (COUNT, 9_120_377, 9, "9,120,377"),
        (COUNT, 9_120_377, 6, "9.1M"),
        (SECONDS, 0.041, 6, "41ms"),
        (SECONDS, 0, 6, "0us"),
        (BYTES, 412 << 20, 6, "412.0m"),
        (SHARE, 0.999, 5, "99.9%"),
        (SHARE, 2.958, 5, "296%"),
        (CLOCK, NOON, 8, "11:06:40"),
        (CLOCK, NOON, 14, "11-18 11:06:40"),
        (BAR, 0.5, 10, "#####"),
        (BAR, 0.5, 99, "##### 50%"),
        (BAR, 7.0, 4, "####"),
        (NAME, "price", 3, "price"),
    ],
)
def test_values_have_short_texts(kind: FieldType, value: Any, width: int, text: str) -> None:
    assert kind.text(value, width) == text


@pytest.mark.parametrize("kind", TYPES, ids=lambda each: each.name)
def test_an_unknown_value_is_a_dash_and_empty_in_csv(kind: FieldType) -> None:
    assert (kind.text(None), kind.csv(None)) == ("-", "")


def test_csv_has_plain_numbers_and_times_in_utc() -> None:
    assert [COUNT.csv(9_120_377), SECONDS.csv(0.041), CLOCK.csv(NOON)] == ["9120377", "0.041", "2026-11-18T11:06:40Z"]
