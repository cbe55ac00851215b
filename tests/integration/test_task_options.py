"""Options of tasks, with a worker that has one place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import wait_until


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with SchedulerClusterCombo(n_workers=1, per_worker_queue_size=1, logging_level="WARNING") as combo:
        yield combo.get_address()


def hold(mark: Path, gate: Path) -> None:
    mark.touch()
    while not gate.exists():
        time.sleep(0.02)


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
    wait_until(lambda: client.info().waiting_tasks == 3, "all have arrived")
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


class MoodyError(ConnectionError):
    pass


def moody(log: Path, most: int, *_inputs: object) -> int:
    """Raise as often as that, then return how often it was called."""
    note(log, "called")
    calls = len(log.read_text().split())
    if calls <= most:
        raise MoodyError(f"call {calls}")
    return calls


def test_a_task_that_raises_runs_again_alone_in_a_map_and_in_a_graph(client: Client, tmp_path: Path) -> None:
    stubborn = client.options(retries=2, retry_on=(ConnectionError,), retry_delay=0.01)
    assert stubborn.submit(moody, tmp_path / "a", 2).result(30) == 3
    assert stubborn.map(moody, [(tmp_path / "b", 1), (tmp_path / "c", 0)]) == [2, 1]
    graph = {"first": (moody, tmp_path / "d", 1), "second": (moody, tmp_path / "e", 2, "first")}
    assert stubborn.get(graph, ["second"]) == {"second": 3}
    assert (tmp_path / "d").read_text().split() == ["called"] * 2


def test_the_last_exception_arrives_and_other_exceptions_are_not_retried(client: Client, tmp_path: Path) -> None:
    stubborn = client.options(retries=2, retry_on=(ConnectionError,), retry_delay=0.01)
    with pytest.raises(MoodyError, match="call 3"):
        stubborn.submit(moody, tmp_path / "a", 9).result(30)
    with pytest.raises(FileNotFoundError):
        stubborn.submit(note, tmp_path / "none" / "b", "x").result(30)
    with pytest.raises(MoodyError, match="call 1"):
        client.submit(moody, tmp_path / "c", 9).result(30)


def test_a_task_that_waits_for_its_retry_holds_no_place_and_can_be_cancelled(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    future = client.options(retries=5, retry_delay=3600).submit(moody, log, 9)
    wait_until(log.exists, "it was called once")
    assert client.submit(abs, -1).result(30) == 1
    assert not future.done()
    assert future.cancel()
    wait_until(lambda: client.workers()[0].tasks == 0, "nothing is left at the worker")
    assert log.read_text().split() == ["called"]


def test_a_task_that_takes_too_long_ends_and_frees_its_place(client: Client, tmp_path: Path) -> None:
    impatient = client.options(timeout=0.2, name="long one")
    with pytest.raises(TimeoutError, match=r"long one: it ran for .* its limit of 0.2 s"):
        impatient.submit(time.sleep, 60).result(30)
    graph = {"a": (time.sleep, 60), "b": (str, "a")}
    with pytest.raises(TimeoutError, match=r"its limit of 0\.2 s"):
        impatient.get(graph, ["b"])
    assert client.options(timeout=30).map(abs, [(-1,), (-2,)]) == [1, 2]
    log = tmp_path / "log"
    again = client.options(timeout=1, retries=1, retry_on=TimeoutError, retry_delay=0)
    with pytest.raises(TimeoutError):
        again.submit(note_and_sleep, log).result(30)
    assert log.read_text().split() == ["called", "called"]


def note_and_sleep(log: Path) -> None:
    note(log, "called")
    time.sleep(60)
