"""Clusters whose workers hand their tasks to another engine, end to end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.engines import AWAY
from tests.support.processes import command, free_address, wait_until


@pytest.fixture(scope="module")
def pool() -> Iterator[SchedulerClusterCombo]:
    with SchedulerClusterCombo(3, engine="tests.support.engines:processes", logging_level="WARNING") as cluster:
        yield cluster


@pytest.fixture
def client(pool: SchedulerClusterCombo) -> Iterator[Client]:
    with Client(pool.get_address()) as client:
        yield client


def newest_host() -> psutil.Process:
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends just now
            if "from scaler.executors.engines.host import main" in " ".join(process.cmdline()):
                found[process.pid] = process
    hosts = [process for process in found.values() if process.ppid() not in found]  # not what they have forked
    return max(hosts, key=psutil.Process.create_time)


def test_results_and_exceptions_come_back(client: Client) -> None:
    assert client.map(divmod, [(number, 7) for number in range(200)]) == [divmod(n, 7) for n in range(200)]
    with pytest.raises(ZeroDivisionError):
        client.submit(divmod, 1, 0).result()


def test_keyword_arguments_large_values_and_shared_objects(client: Client) -> None:
    shared = client.send_object(bytes(3_000_000))
    assert client.submit(len, shared).result() == 3_000_000
    assert len(client.submit(bytes, 2_000_000).result()) == 2_000_000
    assert client.submit(lambda *, first, second: (first, second), first=1, second=2).result() == (1, 2)


def test_a_client_inside_a_task_is_nested_and_frees_its_slot() -> None:
    def fibonacci(number: int) -> int:
        if number < 2:
            return number
        with Client() as nested:
            first, second = nested.submit(fibonacci, number - 1), nested.submit(fibonacci, number - 2)
            return int(first.result() + second.result())

    with (
        SchedulerClusterCombo(1, engine="tests.support.engines:threads", logging_level="WARNING") as cluster,
        Client(cluster.get_address()) as client,
    ):
        assert client.submit(fibonacci, 4).result(timeout=60) == 3


def test_a_graph_runs(client: Client) -> None:
    graph = {"a": 2, "b": (pow, "a", 3), "c": (lambda x, y: x - y, "b", "a")}
    assert client.get(graph, ["b", "c"]) == {"b": 8, "c": 6}


def test_a_task_that_kills_its_process_fails_alone(client: Client) -> None:
    with pytest.raises(Exception, match="its process in the engine died"):
        client.submit(os._exit, 3).result(timeout=60)
    assert client.submit(abs, -1).result(timeout=30) == 1


def test_a_cancelled_task_frees_its_slot(client: Client) -> None:
    slow = [client.submit(time.sleep, 60) for _ in range(3)]
    wait_until(lambda: all(future.running() for future in slow), "they run")
    assert all(future.cancel() for future in slow)
    assert client.submit(abs, -1).result(timeout=30) == 1


@pytest.mark.parametrize("engine", ["forked", pytest.param("forked_by_c", marks=pytest.mark.more)])
def test_a_host_that_is_killed_is_started_again(engine: str) -> None:
    """What it has forked lives on, and has its end of the channel open."""
    with (
        SchedulerClusterCombo(2, engine=f"tests.support.engines:{engine}", logging_level="ERROR") as cluster,
        Client(cluster.get_address()) as client,
    ):
        assert client.submit(abs, -1).result(timeout=30) == 1
        host = newest_host()
        pool = host.children(recursive=True)
        assert pool
        futures = [client.submit(time.sleep, 0.3) for _ in range(8)]
        host.send_signal(signal.SIGKILL)
        wait(futures, timeout=60)
        assert [future.result() for future in futures] == [None] * 8
        wait_until(lambda: not any(process.is_running() for process in pool), "its processes are gone")


@pytest.mark.more
def test_an_engine_that_has_worked_and_is_away_is_waited_for(tmp_path: Path) -> None:
    away, address = tmp_path / "away", free_address()
    options = ("--engine", "tests.support.engines:sometimes_away", "-n", "1")
    with (
        command("scheduler", address),
        command("cluster", address, *options, env={AWAY: str(away)}) as running,
        Client(address) as client,
    ):
        host = client.submit(os.getpid).result(timeout=30)
        away.touch()
        os.kill(host, signal.SIGKILL)
        future = client.submit(abs, -1)
        assert "[WARNING]" in running.wait_for("the engine cannot be made: ConnectionError: the engine is unavailable")
        running.wait_for("exit code 2); the next one starts in 0.2 s")
        away.unlink()
        assert future.result(timeout=30) == 1


def test_a_missing_engine_factory_ends_the_cluster_with_an_error() -> None:
    with command("cluster", "ipc:///tmp/nobody", "--engine", "nowhere:nothing", "-n", "1") as running:
        assert running.end() == 1
        assert "cannot be loaded: No module named 'nowhere'" in running.output
