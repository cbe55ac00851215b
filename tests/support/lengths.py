"""The durations of test files: long ones start first when several run at a time; otherwise the last would run alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("lengths.txt")
TABLE_OF_MORE = Path(__file__).with_name("lengths_more.txt")
LEAST_SECONDS = 1.0
"""Shorter files are not in the table."""


class Lengths:
    def __init__(self, table: Path) -> None:
        self._table = table
        rows = (line.split() for line in table.read_text().splitlines())
        self._known = {path: float(seconds) for seconds, path in rows}
        self._measured: defaultdict[str, float] = defaultdict(float)

    def order(self, items: list[pytest.Item]) -> None:
        """Sort files: new ones of tests with processes first, then known ones, the longest first, then others."""
        new = {path for path in {_path(item.nodeid) for item in items} - self._known.keys() if _has_processes(path)}
        items.sort(key=lambda item: (_path(item.nodeid) not in new, -self._known.get(_path(item.nodeid), 0.0)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._measured[_path(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        rows = sorted(((seconds, path) for path, seconds in self._measured.items()), reverse=True)
        self._table.write_text(
            "".join(f"{seconds:6.1f} {path}\n" for seconds, path in rows if seconds >= LEAST_SECONDS)
        )


def table_for(marks: str) -> Path:
    """Return the table for the tests that `pytest -m MARKS` selects."""
    return TABLE if "not more" in marks else TABLE_OF_MORE


def _path(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _has_processes(path: str) -> bool:
    return path.startswith(("tests/faults/", "tests/integration/"))
