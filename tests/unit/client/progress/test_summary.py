from __future__ import annotations

import pytest

from scaler.client.progress.summary import Summary, clock


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        (Summary(0, None, 0, 0, 0), "0 tasks  0:00 elapsed, 0.0 tasks/s"),
        (
            Summary(1203, 5000, 0, 12, 100),
            "[####................] 1,203/5,000  24%  0:12 elapsed, 100 tasks/s, 0:37 left",
        ),
        (Summary(5, 5, 2, 3, 1.5), "[####################] 5/5 100%  0:03 elapsed, 1.5 tasks/s, 2 failed"),
        (
            Summary(0, 3, 0, 7, 0, "no worker is connected; start one"),
            "[....................] 0/3   0%  0:07 elapsed, 0.0 tasks/s, no worker is connected; start one",
        ),
        (Summary(0, 0, 0, 0, 0), "[####################] 0/0 100%  0:00 elapsed, 0.0 tasks/s"),
    ],
)
def test_a_line_says_all(summary: Summary, line: str) -> None:
    assert summary.line() == line


def test_time_is_shown_as_on_a_clock() -> None:
    assert [clock(5.9), clock(65), clock(3725)] == ["0:05", "1:05", "1:02:05"]


def test_not_all_is_never_shown_as_100_percent() -> None:
    assert " 99%" in Summary(99_999, 100_000, 0, 1, 1).line()
