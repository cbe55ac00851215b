"""Closed, cut, silent, paused: what becomes of runs and results when a connection is not what it was. The table is in
docs/explanation/conversations.md, and each of its lines names a test.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scaler import Client
from tests.support.processes import command, scheduler

pytestmark = pytest.mark.faults


def noted(path: str, seconds: float) -> str:
    """A task that says that it has begun."""
    with Path(path).open("a") as file:
        file.write("x")
    time.sleep(seconds)
    return path


def test_the_shortest_time_outs_hold_for_peers_that_say_a_heartbeat_less_often(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    with (
        scheduler(None, "-wt", "1", "-ct", "1") as (address, running),
        command("cluster", address, "-n", "1", "-hi", "2"),
        Client(address, heartbeat_interval_seconds=2) as client,
    ):
        assert client.submit(noted, mark, 2.5).result(30) == mark
        assert "is gone" not in running.output
    assert Path(mark).read_text() == "x"
