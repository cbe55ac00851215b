"""Limits of worker processes: fresh ones take over between tasks, nothing is lost, and no task is blamed."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo

pytestmark = pytest.mark.processes
MB = 1_000_000


def pid_of(_number: int) -> int:
    return os.getpid()


def without_stencil(_number: int) -> tuple[set[str], int]:
    """Return which schemas this process has loaded, or found loaded when it was forked; and how many shapes of what it
    was told have no stencil.
    """
    from scaler.wire.codec.codec import _CODECS
    from scaler.wire.codec.schemas import SCHEMAS

    shapes = _CODECS["AgentToProcessor"].stencils._by_stretch.values()
    return set(SCHEMAS), sum(isinstance(known, int) for known in shapes)


def keep(count: int) -> int:
    """Keep memory in the process; return whose it is."""
    sys.kept = bytearray(b"x") * count  # type: ignore[attr-defined]
    return os.getpid()


@pytest.fixture(scope="module")
def of_seven() -> Iterator[Client]:
    with (
        SchedulerClusterCombo(1, max_tasks_per_processor=7, crash_limit=1, logging_level="WARNING") as combo,
        Client(combo.get_address()) as client,
    ):
        yield client


def test_a_fresh_process_takes_over_after_max_tasks_per_processor(
    of_seven: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    pids = of_seven.map(pid_of, [(number,) for number in range(7 * 5)])
    assert list(Counter(pids).values()) == [7] * 5
    assert [of_seven.submit(pow, number, 2).result(30) for number in range(20)] == [number**2 for number in range(20)]
    assert capfd.readouterr() == ("", "")


def test_a_fresh_process_need_not_load_what_all_need(of_seven: Client) -> None:
    deadline = time.monotonic() + 60
    loaded: set[str] = set()
    missing = 1
    while time.monotonic() < deadline and ("client" not in loaded or missing):
        loaded, missing = of_seven.submit(without_stencil, 0).result(30)
        # each seventh task is in a fresh process; the first ones may have been too early
    assert {"client", "processor"} <= loaded
    assert not missing


def test_a_process_stays_while_tasks_of_its_tasks_are_open(of_seven: Client, tmp_path: Path) -> None:
    def leave_one_behind(path: str) -> None:
        def touch_late() -> None:
            time.sleep(0.3)
            Path(path).touch()

        sys.client = Client()  # type: ignore[attr-defined]
        sys.future = sys.client.submit(touch_late)  # type: ignore[attr-defined]

    for number in range(7):
        of_seven.submit(leave_one_behind, str(tmp_path / str(number))).result(30)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 7 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of tasks")
def test_memory_of_a_process_is_limited() -> None:
    with (
        SchedulerClusterCombo(1, processor_memory_bytes=400 * MB, crash_limit=1, logging_level="WARNING") as combo,
        Client(combo.get_address()) as client,
    ):
        first = client.submit(os.getpid).result(30)
        with pytest.raises(MemoryError):
            client.submit(keep, 600 * MB).result(30)
        assert client.submit(os.getpid).result(30) == first
        rows = client.map(keep, [(0,), (600 * MB,), (0,)], return_exceptions=True)
        assert (rows[0], type(rows[1]), rows[2]) == (first, MemoryError, first)
        assert client.submit(keep, 10 * MB).result(30) == first
        assert client.submit(keep, 320 * MB).result(30) == first
        assert client.submit(os.getpid).result(30) != first
