"""One call on all workers, and fresh processes for all of them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from scaler import Client, Cluster, NotAllowedError, current_task
from scaler.errors import RemoteTraceback
from tests.support.processes import wait_until

SECONDS = 60


def whereabouts(sign: str) -> tuple[str, str, int]:
    task = current_task()
    assert task is not None
    return sign, task.worker, os.getpid()


def wait_for(gate: str) -> int:
    Path(gate + "-reached").touch()
    while not Path(gate).exists():
        time.sleep(0.005)
    return os.getpid()


def test_a_function_runs_once_on_each_worker_before_what_waits(client: Client, tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    running = [client.submit(wait_for, gate) for _ in range(2)]
    wait_until(Path(gate + "-reached").exists, "a task runs")
    waiting = [client.submit(abs, -1) for _ in range(100)]
    found: list[dict[str, tuple[str, str, int]]] = []
    thread = threading.Thread(target=lambda: found.append(client.run_on_all(whereabouts, sign="x")), daemon=True)
    thread.start()
    Path(gate).touch()
    thread.join(SECONDS)
    [by_worker] = found
    assert sorted(by_worker) == sorted(worker.name for worker in client.workers())
    assert all(value[:2] == ("x", worker) for worker, value in by_worker.items())
    assert len({value[2] for value in by_worker.values()}) == 2
    assert [future.result(SECONDS) for future in (*running, *waiting)][2:] == [1] * 100


def test_a_failure_of_run_everywhere_names_the_worker(client: Client) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        client.run_on_all(divmod, 1, 0)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert str(caught.value.__cause__).splitlines()[2].startswith("task divmod on ")
    with pytest.raises(TypeError):
        client.run_on_all(whereabouts)  # type: ignore[call-arg]


def test_a_worker_that_leaves_before_its_turn_is_left_out(client: Client, tmp_path: Path) -> None:
    client.wait_for_workers(2, SECONDS)
    gate, before = str(tmp_path / "gate"), {worker.name for worker in client.workers()}
    cluster = Cluster(client._core.link.address, n_workers=1, logging_level="ERROR", worker_names=("leaves",))
    cluster.start()
    try:
        client.wait_for_workers(3, SECONDS)
        results: list[dict[str, int]] = []
        thread = threading.Thread(target=lambda: results.append(client.run_on_all(wait_for, gate)), daemon=True)
        thread.start()
        wait_until(Path(gate + "-reached").exists, "it runs")
        wait_until(lambda: sum(worker.tasks for worker in client.workers()) == 3, "all have it")
    finally:
        cluster.terminate()
        cluster.join()
    wait_until(lambda: client.info().workers == 2, "it has left")
    Path(gate).touch()
    thread.join(SECONDS)
    assert [set(found) for found in results] == [before]


def test_workers_continue_with_fresh_processes_and_running_tasks_end_in_the_old_ones(
    client: Client, tmp_path: Path
) -> None:
    old = set(client.run_on_all(os.getpid).values())
    gate = str(tmp_path / "gate")
    running = client.submit(wait_for, gate)
    wait_until(Path(gate + "-reached").exists, "it runs")
    client.restart_workers()
    later = [client.submit(os.getpid) for _ in range(20)]
    Path(gate).touch()
    assert running.result(SECONDS) in old
    assert not {future.result(SECONDS) for future in later} & old
    assert not set(client.run_on_all(os.getpid).values()) & old


def test_a_task_may_run_everywhere_and_may_not_restart_processes(client: Client) -> None:
    def ask(restarts: bool) -> list[int]:
        here = Client()
        if restarts:
            here.restart_workers()
        return list(here.run_on_all(os.getpid).values())

    assert len(client.submit(ask, False).result(SECONDS)) == 2
    with pytest.raises(NotAllowedError, match="this is a client in a task"):
        client.submit(ask, True).result(SECONDS)


def test_without_processes_there_is_nothing_to_restart() -> None:
    with Client(processes=False, n_workers=2) as client:
        client.restart_workers()
        assert set(client.run_on_all(os.getpid).values()) == {os.getpid()}
