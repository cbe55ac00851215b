"""Tasks in a real Ray cluster, whose nodes come and go."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.engine_clusters import THREADS, RayCluster, end_with_children
from tests.support.processes import command, free_address, wait_until

pytest.importorskip("ray")
pytestmark = [pytest.mark.more, pytest.mark.alone, pytest.mark.foreign, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    cluster = RayCluster(tmp_path_factory.mktemp("ray"))
    try:
        cluster.node = cluster.add_node()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def client(ray: RayCluster) -> Iterator[Client]:
    """Of a Scaler with a single worker, which hands its tasks to Ray."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ray.environment.items():
            patch.setenv(name, value)
        with (
            SchedulerClusterCombo(1, engine="ray://auto", logging_level="ERROR") as combo,
            Client(combo.get_address()) as client,
        ):
            yield client


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """Tasks wait until this file is there, at the latest at the end of the test: the next one needs their worker."""
    yield tmp_path / "gate"
    (tmp_path / "gate").touch()


def noting() -> Callable[[str, str], Any]:
    """Pickled by value: the nodes of Ray need not have this module."""

    def note(log: str, gate: str) -> str:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        try:
            while not Path(gate).exists():
                time.sleep(0.005)
        except KeyboardInterrupt:
            with Path(log).open("a", encoding="utf-8") as file:
                file.write("stopped\n")
        return "done"

    return note


def noted(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


@pytest.mark.soak
def test_without_a_number_there_are_as_many_workers_as_ray_has_cpus_also_when_its_nodes_come_and_go(
    ray: RayCluster, tmp_path: Path, gate: Path
) -> None:
    address, log = free_address(), tmp_path / "log"
    with (
        contextlib.ExitStack() as added,
        command("scheduler", address),
        command("cluster", address, "--engine", "ray://auto", env=ray.environment) as cluster,
        Client(address) as client,
    ):
        assert client.wait_for_workers(THREADS, timeout=120).workers == THREADS
        second = ray.add_node()
        added.callback(end_with_children, second)
        assert client.wait_for_workers(2 * THREADS, timeout=120).workers == 2 * THREADS
        futures = [client.submit(noting(), str(log), str(gate)) for _ in range(2 * THREADS)]
        wait_until(lambda: len(noted(log)) == 2 * THREADS, "each runs", 120)
        end_with_children(second)
        wait_until(lambda: client.info().workers == THREADS, "its CPUs are missed", 120)
        gate.touch()
        assert not concurrent.futures.wait(futures, 120).not_done, cluster.output
        assert [future.result() for future in futures] == ["done"] * 2 * THREADS
        assert len(noted(log)) == 3 * THREADS, "those of the lost node have begun again"


def test_results_and_exceptions_come_back(client: Client) -> None:
    assert client.map(divmod, [(number, 7) for number in range(50)]) == [divmod(n, 7) for n in range(50)]
    with pytest.raises(ZeroDivisionError):
        client.submit(divmod, 1, 0).result(timeout=90)


def test_any_depth_works(client: Client) -> None:
    def fibonacci(number: int) -> int:
        if number < 2:
            return number
        with Client() as nested:
            first, second = nested.submit(fibonacci, number - 1), nested.submit(fibonacci, number - 2)
            return int(first.result() + second.result())

    assert client.submit(fibonacci, 5).result(timeout=90) == 5  # five deep, and Ray has two CPUs


def test_a_cancelled_task_is_stopped(client: Client, tmp_path: Path, gate: Path) -> None:
    log = tmp_path / "log"
    future = client.submit(noting(), str(log), str(gate))
    wait_until(lambda: noted(log), "it runs", 90)
    assert future.cancel()
    wait_until(lambda: noted(log)[1:] == ["stopped"], "Ray has interrupted it", 90)
    assert client.submit(abs, -1).result(timeout=90) == 1


def test_a_lost_process_is_a_task_tried_again(client: Client, tmp_path: Path, gate: Path) -> None:
    log = tmp_path / "log"
    future = client.submit(noting(), str(log), str(gate))
    wait_until(lambda: noted(log), "it runs", 90)
    os.kill(int(noted(log)[0]), signal.SIGKILL)
    wait_until(lambda: len(noted(log)) == 2, "it runs again, in another process", 90)
    gate.touch()
    assert future.result(timeout=90) == "done"


def test_a_lost_node_is_a_task_tried_again_on_another(
    client: Client, ray: RayCluster, tmp_path: Path, gate: Path
) -> None:
    log = tmp_path / "log"
    future = client.submit(noting(), str(log), str(gate))
    wait_until(lambda: noted(log), "it runs", 90)
    end_with_children(ray.node)
    ray.node = ray.add_node()
    wait_until(lambda: len(noted(log)) == 2, "it runs again, on the other node", 90)
    gate.touch()
    assert future.result(timeout=90) == "done"
