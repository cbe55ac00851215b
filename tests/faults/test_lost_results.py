"""Results that were not read when the scheduler is killed come all the same."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest

from scaler import Client, ScalerFuture
from scaler.errors import MissingObjects, TaskNotFoundError
from tests.support.processes import Command, command, free_address, scheduler, wait_until
from tests.support.proxy import Proxy

pytestmark = pytest.mark.faults


class Cluster:
    """A scheduler that can be killed and replaced, and two workers."""

    def __init__(self, address: str, first: Command) -> None:
        self.address = address
        self.first = first

    def kill(self) -> None:
        os.kill(self.first.pid, signal.SIGKILL)
        self.first.end()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    address = free_address()
    with scheduler(address) as (_, first), command("cluster", address, "-n", "2"):
        yield Cluster(address, first)


def block(number: int, size: int) -> bytes:
    return bytes([number % 256]) * size


def slow_block(folder: str, number: int, size: int) -> bytes:
    Path(folder, str(number)).touch()
    time.sleep(0.01)
    return block(number, size)


def noted_block(folder: str, number: int, size: int = 100_000) -> bytes:
    with Path(folder, str(number)).open("a") as file:
        file.write("x")
    return block(number, size)


def test_finished_results_arrive_through_the_next_scheduler(cluster: Cluster) -> None:
    with Client(cluster.address) as client:
        table = client.send_object(list(range(50_000)))
        futures = [client.submit(block, number, 100_000) for number in range(10)]
        objects = client.submit(lambda rows, more: (len(rows), more), table, b"m" * 100_000)
        graph = client.get({"a": (block, 1, 100_000), "b": (len, "a"), "c": (bytes.upper, "a")}, ["a", "b", "c"], False)
        wait([*futures, objects, *graph.values()], 60)
        del table
        callbacks: list[bytes] = []
        cluster.kill()
        with scheduler(cluster.address):
            futures[9].add_done_callback(lambda future: callbacks.append(future.result()))
            assert all(future.done() for future in futures)
            assert [future.result(60) for future in futures] == [block(number, 100_000) for number in range(10)]
            assert objects.result(60) == (50_000, b"m" * 100_000)
            assert [graph[key].result(60) for key in "abc"] == [block(1, 100_000), 100_000, block(1, 100_000)]
            assert callbacks == [block(9, 100_000)]


@pytest.mark.more
def test_a_map_of_large_results_survives_a_restart_in_its_middle(cluster: Cluster, tmp_path: Path) -> None:
    def restart() -> None:
        wait_until(lambda: len(list(tmp_path.iterdir())) >= 40, "it is in the middle")
        wait_until(lambda: client._core.link._work.large.requests, "a result is asked for", pause_seconds=0)
        cluster.kill()
        with scheduler(cluster.address):
            is_over.wait(60)

    is_over = threading.Event()
    with Client(cluster.address) as client:
        thread = threading.Thread(target=restart)
        thread.start()
        try:
            results = client.map(slow_block, [(str(tmp_path), number, 200_000) for number in range(100)])
        finally:
            is_over.set()
            thread.join()
    assert results == [block(number, 200_000) for number in range(100)]


def test_only_what_was_lost_and_can_still_be_asked_for_runs_again(cluster: Cluster, tmp_path: Path) -> None:
    with Client(cluster.address) as client:
        futures = [client.submit(noted_block, str(tmp_path), number) for number in range(3)]
        wait(futures, 60)
        assert futures[0].result(30) == block(0, 100_000)
        del futures[2]
        cluster.kill()
        with scheduler(cluster.address):
            assert futures[1].result(60) == block(1, 100_000)
        runs = [Path(tmp_path, str(number)).read_text() for number in range(3)]
        assert runs == ["x", "x", "x"]


@pytest.mark.parametrize(
    "is_killed",
    [pytest.param(True, id="scheduler killed"), pytest.param(False, marks=pytest.mark.more, id="connection cut")],
)
def test_a_result_of_which_the_news_was_lost_comes_and_is_made_again_only_if_it_must(
    is_killed: bool, cluster: Cluster, tmp_path: Path
) -> None:
    sizes = [10, 100_000]
    with (
        Proxy(cluster.address) as to_client,
        Client(to_client.address) as client,
        Client(cluster.address) as other,
        contextlib.ExitStack() as later,
    ):
        assert client.submit(abs, -1).result(30) == 1
        once = client.options(at_most_once=True)
        to_client.swallow(up=False)
        futures = [client.submit(noted_block, str(tmp_path), number, size) for number, size in enumerate(sizes)]
        single = [once.submit(noted_block, str(tmp_path), 2 + number, size) for number, size in enumerate(sizes)]
        wait_until(lambda: len(list(tmp_path.iterdir())) == 4, "they run")
        wait_until(lambda: not any(worker.tasks for worker in other.workers()), "the scheduler has all results")
        assert not any(future.done() for future in [*futures, *single])
        if is_killed:
            cluster.kill()
        to_client.reset()
        to_client.pass_on()
        if is_killed:
            later.enter_context(scheduler(cluster.address))
        assert [future.result(60) for future in futures] == [block(number, size) for number, size in enumerate(sizes)]
        errors = [future.exception(60) for future in single]
        assert is_killed or errors == [None, None]
        for number, (future, error) in enumerate(zip(single, errors, strict=True)):
            if error is None:
                assert future.result() == block(2 + number, sizes[number])
            else:
                assert isinstance(error, (TaskNotFoundError, MissingObjects))
                assert "at_most_once" in str(error)
    runs = [Path(tmp_path, str(number)).read_text() for number in range(4)]
    assert runs[2:] == ["x", "x"]
    assert set(runs) <= ({"x", "xx"} if is_killed else {"x"})


def use(value: bytes) -> int:
    return len(value)


def test_each_lost_result_of_at_most_once_names_its_cluster_each_time(tmp_path: Path) -> None:
    with scheduler() as (address, _), Client(address) as client:
        once = client.options(at_most_once=True)
        with command("cluster", address, "-n", "2") as lost:
            futures = [once.submit(noted_block, str(tmp_path), number, 100_000) for number in range(4)]
            wait(futures, 60)
            name = client.workers()[0].name
            lost.signal(signal.SIGKILL)
            lost.end()
        with command("cluster", address, "-n", "2") as second:
            second.wait_for(" up: scheduler")
            for future in [*futures, *futures]:
                with pytest.raises(MissingObjects, match=f"lost with the cluster of .*{name}.*at_most_once"):
                    future.result(60)
            with pytest.raises(MissingObjects, match=f"cluster of .*{name}.*at_most_once"):
                client.submit(use, futures[1]).result(60)
            with pytest.raises(MissingObjects, match=name):
                asyncio.run(awaited(futures[2]))
    assert sorted(file.read_text() for file in tmp_path.iterdir()) == ["x"] * 4


async def awaited(future: ScalerFuture[bytes]) -> bytes:
    return await future
