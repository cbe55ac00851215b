"""Networks that swallow everything for a while: time-outs alone decide how long that may take."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scaler import Client
from tests.support.processes import command, scheduler, wait_until
from tests.support.proxy import Proxy

pytestmark = pytest.mark.faults


def append_and_nap(path: str, seconds: float) -> str:
    with Path(path).open("a") as file:
        file.write("x")
    time.sleep(seconds)
    return path


@pytest.mark.parametrize("hole_seconds", [8, pytest.param(35, marks=pytest.mark.more)])
def test_a_cluster_that_cannot_be_heard_for_less_than_its_time_out_loses_nothing(
    tmp_path: Path, hole_seconds: float
) -> None:
    mark = tmp_path / "mark"
    with (
        scheduler(None, "-wt", "600") as (address, running),
        Proxy(address) as proxy,
        command("cluster", proxy.address, "-n", "1"),
        Client(address) as client,
    ):
        future = client.submit(append_and_nap, str(mark), hole_seconds + 1.0)
        wait_until(mark.exists, "it runs")
        proxy.swallow()
        time.sleep(hole_seconds)
        proxy.pass_on()
        assert future.result(60) == str(mark)
    assert mark.read_text() == "x", "it ran once"
    assert "is gone" not in "".join(running.lines)
