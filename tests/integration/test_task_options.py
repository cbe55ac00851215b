"""Options of tasks, with a worker that has one place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import wait_until

POLL_SECONDS = 0.2
"""What was submitted before a gate opens has arrived when the task behind it sees that."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with SchedulerClusterCombo(n_workers=1, per_worker_queue_size=1, logging_level="WARNING") as combo:
        yield combo.get_address()


def hold(mark: Path, gate: Path) -> None:
    mark.touch()
    while not gate.exists():
        time.sleep(POLL_SECONDS)


def note(log: Path, name: str) -> None:
    with log.open("a") as file:
        file.write(f"{name} ")


def test_the_greater_priority_goes_first(client: Client, tmp_path: Path) -> None:
    log, mark, gate = (tmp_path / name for name in ("log", "mark", "gate"))
    client.submit(hold, mark, gate)
    wait_until(mark.exists, "the only place is taken")
    futures = [
        client.options(priority=-1).submit(note, log, "late"),
        client.submit(note, log, "plain"),
        client.options(priority=7).submit(note, log, "soon"),
    ]
    gate.touch()
    for future in futures:
        future.result(30)
    assert log.read_text().split() == ["soon", "plain", "late"]


def test_a_task_is_measured_and_named_as_its_options_say(client: Client) -> None:
    future = client.options(profiling=True, name="wait a little").submit(time.sleep, 0.02)
    future.result(30)
    assert future.profiling_info().duration_s >= 0.02
    assert "wait a little" in repr(future)
    measured = client.options(profiling=True).get({"a": (time.sleep, 0.02)}, ["a"], block=False)["a"]
    measured.result(30)
    assert measured.profiling_info().duration_s >= 0.02
