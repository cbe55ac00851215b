"""Tasks go on while one scheduler follows another, and while their agent is cut off: each is executed once.

A task notes that it begins, and ends when its gate is opened: nothing here depends on how long something takes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from tests.support.processes import Command, command, free_address, scheduler, wait_until
from tests.support.proxy import Proxy
from tests.support.timing import at_best

pytestmark = pytest.mark.faults


class Cluster:
    """A scheduler that can be killed, and two workers; tasks that note their beginnings and wait at a gate."""

    def __init__(self, address: str, first: Command, folder: Path) -> None:
        self.address = address
        self.folder = str(folder)
        self._first = first
        self._folder = folder

    def kill(self) -> None:
        os.kill(self._first.pid, signal.SIGKILL)
        self._first.end()

    def begun(self, name: str) -> int:
        """Return how often a task has begun."""
        path = self._folder / name
        return len(path.read_text()) if path.exists() else 0

    def wait_for(self, *names: str) -> None:
        wait_until(lambda: all(self.begun(name) for name in names), f"{names} have begun")

    def open_gate(self) -> None:
        (self._folder / "gate").touch()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    address = free_address()
    with scheduler(address) as (_, first), command("cluster", address, "-n", "2"):
        yield Cluster(address, first, tmp_path)


def task(folder: str, name: str, size: int = 1) -> bytes:
    with Path(folder, name).open("a") as file:
        file.write("x")
    while not Path(folder, "gate").exists():
        time.sleep(0.005)
    return name.encode() * size


def parent(folder: str, client: Client) -> list[bytes]:
    with Path(folder, "parent").open("a") as file:
        file.write("x")
    return [future.result() for future in [client.submit(task, folder, "child"), client.submit(task, folder, "other")]]


def task_without_a_gate(folder: str) -> bytes:
    with Path(folder, "own").open("a") as file:
        file.write("x")
    return b"own"


def join(*values: bytes) -> bytes:
    return b"+".join(values)


def test_running_tasks_continue_under_the_next_scheduler(cluster: Cluster) -> None:
    with Client(cluster.address) as client:
        futures = [client.submit(task, cluster.folder, name) for name in ("a", "b", "later")]
        cluster.wait_for("a", "b")
        cluster.kill()
        with scheduler(cluster.address):
            wait_until(lambda: client._core.link._protocol.is_accepted, "the client is back")
            cluster.open_gate()
            assert [future.result(60) for future in futures] == [b"a", b"b", b"later"]
    assert [cluster.begun(name) for name in ("a", "b", "later")] == [1, 1, 1]


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_results_of_tasks_that_ended_while_there_was_no_scheduler_arrive(cluster: Cluster, size: int) -> None:
    with Client(cluster.address) as client:
        futures = [client.submit(task, cluster.folder, name, size) for name in ("a", "b")]
        cluster.wait_for("a", "b")
        cluster.kill()
        cluster.open_gate()
        time.sleep(0.3)  # they end, most probably; the result is the same in any case
        with scheduler(cluster.address):
            assert [future.result(60) for future in futures] == [b"a" * size, b"b" * size]
    assert [cluster.begun(name) for name in ("a", "b")] == [1, 1]


def test_a_blocked_parent_and_its_nested_tasks_continue(cluster: Cluster) -> None:
    with Client(cluster.address) as client:
        future = client.submit(parent, cluster.folder, client)
        cluster.wait_for("child", "other")
        cluster.kill()
        with scheduler(cluster.address):
            wait_until(lambda: client._core.link._protocol.is_accepted, "the client is back")
            cluster.open_gate()
            assert future.result(60) == [b"child", b"other"]
    assert [cluster.begun(name) for name in ("parent", "child", "other")] == [1, 1, 1]


def test_running_nodes_of_a_graph_continue(cluster: Cluster) -> None:
    with Client(cluster.address) as client:
        data = {"folder": cluster.folder, "first": "a", "second": "b"}
        calls = {
            "own": (task_without_a_gate, "folder"),
            "a": (task, "folder", "first"),
            "b": (task, "folder", "second"),
        }
        futures = client.get({**data, **calls, "all": (join, "a", "b")}, ["own", "all"], block=False)
        future = futures["all"]
        assert futures["own"].result(60) == b"own"
        cluster.wait_for("a", "b")
        cluster.kill()
        with scheduler(cluster.address):
            wait_until(lambda: client._core.link._protocol.is_accepted, "the client is back")
            cluster.open_gate()
            assert future.result(60) == b"a+b"
    assert [cluster.begun(name) for name in ("a", "b", "own")] == [1, 1, 1]


def test_the_next_scheduler_is_soon_at_work(tmp_path: Path) -> None:
    def seconds_until_all_is_done() -> float:
        address = free_address()
        with (
            scheduler(address) as (_, first),
            command("cluster", address, "-n", "2"),
            Client(address, heartbeat_interval_seconds=1) as client,
        ):
            client.submit(abs, 1).result(60)
            time.sleep(2.5)  # the agent has heard that it is the only one
            Cluster(address, first, tmp_path).kill()
            futures = [client.submit(abs, number) for number in range(100)]
            with scheduler(address):
                start = time.monotonic()
                assert [future.result(60) for future in futures] == list(range(100))
                return time.monotonic() - start

    assert at_best(seconds_until_all_is_done, 4) < 4


def test_runs_of_an_agent_away_for_longer_than_its_time_out_continue(tmp_path: Path) -> None:
    address = free_address()
    with scheduler(address, "-wt", "2", "--crash-limit", "2") as (_, first), Proxy(address) as proxy:
        cluster = Cluster(address, first, tmp_path)
        with command("cluster", proxy.address, "-n", "1", "-hi", "0.5"), Client(address) as client:
            future = client.submit(task, cluster.folder, "a")
            cluster.wait_for("a")
            proxy.swallow()
            first.wait_for("is lost: it was silent")
            proxy.pass_on()
            proxy.reset()
            cluster.open_gate()
            assert future.result(60) == b"a"
    assert cluster.begun("a") == 1
