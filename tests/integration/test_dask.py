"""Tasks in a real Dask cluster, whose workers and scheduler come and go."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.engine_clusters import THREADS, DaskCluster
from tests.support.processes import command, free_address, wait_until

pytest.importorskip("distributed")
from scaler.executors.engines.dask import dask_capacity

pytestmark = [pytest.mark.more, pytest.mark.alone, pytest.mark.foreign]


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    cluster = DaskCluster(tmp_path_factory.mktemp("dask"))
    try:
        cluster.add_worker()
        cluster.await_workers()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def start(dask: DaskCluster) -> Iterator[Callable[..., Client]]:
    """Starts a Scaler in front of the Dask cluster."""
    open_: list[Any] = []

    def start(n_workers: int) -> Client:
        combo = SchedulerClusterCombo(n_workers, engine=dask.engine, logging_level="ERROR")
        client = Client(combo.get_address())
        open_[:0] = [client, combo]
        return client

    yield start
    for each in open_:
        each.__exit__(None, None, None)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """Tasks wait until this file is there, at the latest at the end of the test: the next one needs their threads."""
    yield tmp_path / "gate"
    (tmp_path / "gate").touch()


def noting() -> Callable[[str, str, str], Any]:
    """Pickled by value: the Dask workers need not have this module."""

    def note(log: str, what: str, gate: str = "") -> str:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")
        while gate and not Path(gate).exists():
            time.sleep(0.005)
        return what

    return note


def noted(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def worker_processes(nanny: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(nanny).children() if "spawn_main" in " ".join(child.cmdline())]


def test_without_a_number_there_are_as_many_workers_as_dask_has_threads_also_when_its_workers_come_and_go(
    dask: DaskCluster, tmp_path: Path, gate: Path
) -> None:
    address, note, log = free_address(), noting(), tmp_path / "log"
    with (
        contextlib.ExitStack() as added,
        command("scheduler", address),
        command("cluster", address, "--engine", dask.engine),
        Client(address) as client,
    ):
        assert client.wait_for_workers(THREADS, timeout=90).workers == THREADS
        second = dask.add_worker(name="second")
        added.callback(dask.lose, second)
        assert client.wait_for_workers(2 * THREADS, timeout=90).workers == 2 * THREADS
        futures = [client.submit(note, str(log), str(number), str(gate)) for number in range(2 * THREADS)]
        wait_until(lambda: len(noted(log)) == 2 * THREADS, "each runs", 90)
        dask.lose(second)
        wait_until(lambda: client.info().workers == THREADS, "its threads are missed", 90)
        assert len(client.workers()) == THREADS
        gate.touch()
        assert [future.result(timeout=90) for future in futures] == list(map(str, range(2 * THREADS)))
        assert sorted(Counter(noted(log)).values()) == [1] * THREADS + [2] * THREADS


def test_a_function_that_raises_says_so_with_its_traceback(start: Callable[..., Client]) -> None:
    with pytest.raises(ZeroDivisionError):
        start(1).submit(divmod, 1, 0).result(timeout=90)


def test_any_depth_works_with_fewer_places_in_dask(start: Callable[..., Client]) -> None:
    def fibonacci(number: int) -> int:
        if number < 2:
            return number
        with Client() as nested:
            first, second = nested.submit(fibonacci, number - 1), nested.submit(fibonacci, number - 2)
            return int(first.result() + second.result())

    assert start(THREADS).submit(fibonacci, 6).result(timeout=90) == 8


def test_dask_goes_by_the_priorities_of_the_tasks(
    start: Callable[..., Client], dask: DaskCluster, tmp_path: Path, gate: Path
) -> None:
    client, note, log = start(THREADS + 4), noting(), tmp_path / "log"
    first = [client.submit(note, str(log), "first", str(gate)) for _ in range(THREADS)]
    wait_until(lambda: len(noted(log)) == THREADS, "Dask is full", 90)
    with dask.without_worker_saturation():
        wishes = [client.options(priority=wish).submit(note, str(log), str(wish)) for wish in range(4)]
        wait_until(lambda: dask.n_tasks() == THREADS + 4, "they are with Dask", 90)
        gate.touch()
        wait([*first, *wishes], timeout=90)
    begun = noted(log)[THREADS:]
    assert sorted(begun) == ["0", "1", "2", "3"]
    assert begun.index("3") < begun.index("1")  # "0" may begin before the others have reached the Dask worker


def test_cancel_reaches_a_task_that_waits_in_dask(
    start: Callable[..., Client], dask: DaskCluster, tmp_path: Path, gate: Path
) -> None:
    client, note, log = start(THREADS + 1), noting(), tmp_path / "log"
    first = [client.submit(note, str(log), "first", str(gate)) for _ in range(THREADS)]
    wait_until(lambda: len(noted(log)) == THREADS, "Dask is full", 90)
    unwanted = client.options(name="a name").submit(note, str(log), "unwanted")
    wait_until(lambda: dask.n_tasks() == THREADS + 1, "it is with Dask", 90)
    assert sum("a name-" in key for key in dask.tasks()) == 1, "Dask's dashboard shows it"
    assert unwanted.cancel()
    wait_until(lambda: dask.n_tasks() == THREADS, "Dask has dropped it", 90)
    gate.touch()
    wait(first, timeout=90)
    assert noted(log) == ["first"] * THREADS


def test_a_lost_worker_is_a_task_tried_again(
    start: Callable[..., Client], dask: DaskCluster, tmp_path: Path, gate: Path
) -> None:
    client, note, log = start(1), noting(), tmp_path / "log"
    future = client.submit(note, str(log), "begun", str(gate))
    wait_until(lambda: noted(log), "it runs", 90)
    [process] = worker_processes(dask.workers[0].pid)
    process.send_signal(signal.SIGKILL)
    wait_until(lambda: len(noted(log)) == 2, "it runs again, in the worker that the nanny has started", 90)
    gate.touch()
    assert future.result(timeout=90) == "begun"


def test_a_task_that_kills_its_worker_each_time_fails(start: Callable[..., Client]) -> None:
    client = start(1)
    with pytest.raises(Exception, match="its process in the engine died"):
        client.submit(os._exit, 3).result(timeout=90)
    assert client.submit(abs, -1).result(timeout=90) == 1


def test_tasks_outlive_the_scheduler_and_the_host_of_dask_and_wait_for_workers(tmp_path: Path) -> None:
    dask, address = DaskCluster(tmp_path), free_address()
    impatient = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
    with (
        contextlib.ExitStack() as at_end,
        command("scheduler", address),
        command("cluster", address, "--engine", dask.engine, "-n", "2", env=impatient) as running,
        Client(address) as client,
    ):
        at_end.callback(dask.end)
        future = client.submit(abs, -1)
        wait_until(lambda: dask.n_tasks() == 1, "it is with Dask, which has no worker", 90)
        dask.scheduler.kill()
        dask.scheduler.wait()
        [host] = psutil.Process(running.process.pid).children()
        host.kill()
        running.wait_for("has died (exit code 2)")
        dask.scheduler = dask.start_scheduler()
        dask.add_worker(1)
        assert future.result(timeout=90) == 1


def test_while_dask_is_unreachable_no_task_is_shown_as_running(tmp_path: Path, gate: Path) -> None:
    dask, address, note, log = DaskCluster(tmp_path), free_address(), noting(), tmp_path / "log"
    with (
        contextlib.ExitStack() as at_end,
        command("scheduler", address),
        command("cluster", address, "--engine", dask.engine) as running,
        Client(address) as client,
    ):
        at_end.callback(dask.end)
        dask.add_worker(1)
        future = client.submit(note, str(log), "once", str(gate))
        wait_until(lambda: noted(log) == ["once"], "it runs", 90)
        dask.scheduler.kill()
        dask.scheduler.wait()
        running.wait_for("0 workers take tasks now")
        wait_until(lambda: "no worker is connected" in str(future.explain()), "it is back", 10)
        gate.touch()
        dask.scheduler = dask.start_scheduler()
        dask.add_worker(1)
        assert future.result(timeout=90) == "once"


def test_a_dask_scheduler_that_sends_events_while_a_client_connects(dask: DaskCluster) -> None:
    """It sends both in one message, which its own client does not expect."""
    with dask.sending_events_to_clients(every_seconds=0.02):
        for _ in range(20):
            assert dask_capacity(dask.engine) == THREADS


def test_an_unreachable_dask_scheduler_ends_the_cluster_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    with command("cluster", "ipc:///tmp/nobody", "--engine", "dask://127.0.0.1:1", "-n", "1") as running:
        assert running.end() == 1
        assert "there is no Dask scheduler at 127.0.0.1:1" in running.output
