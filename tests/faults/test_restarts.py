"""Values stay with their agents while the scheduler is killed, and come to those that need them from the next one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from scaler import Client, TaskNotFoundError
from tests.faults.test_values import SIZE, block, blocks_of, late_end_of
from tests.support.processes import command, free_address, scheduler, wait_until

pytestmark = pytest.mark.faults


class Cluster:
    """A scheduler that is killed and replaced, and the agent that stays."""

    def __init__(self, address: str, options: Sequence[str], stack: ExitStack) -> None:
        self.address, self._options, self._stack = address, options, stack
        self.start()
        self.agent = stack.enter_context(command("cluster", address, "-n", "2"))

    def restart(self) -> None:
        self.kill()
        self.start()

    def kill(self) -> None:
        os.kill(self._running.pid, signal.SIGKILL)
        self._running.end()

    def start(self) -> None:
        _, self._running = self._stack.enter_context(scheduler(self.address, *self._options))


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(free_address(), getattr(request, "param", ()), stack)


def runs(folder: Path) -> dict[int, int]:
    """Return how often each block was made."""
    return {int(file.name): len(file.read_text()) for file in folder.iterdir()}


def children(folder: str, go_on: str) -> list[tuple[int, int]]:
    client = Client()
    futures = [client.submit(block, folder, number) for number in range(3)]
    wait(futures, 60)
    Path(go_on).touch()
    wait_until(lambda: not Path(go_on).exists(), "the scheduler was killed")
    return [(data[0], len(data)) for data in (future.result(60) for future in futures)]


def test_results_that_nobody_has_read_are_not_made_again_after_two_restarts(cluster: Cluster, tmp_path: Path) -> None:
    with Client(cluster.address) as client:
        once = client.options(at_most_once=True)
        futures = [client.submit(block, str(tmp_path), number) for number in range(3)]
        futures += [once.submit(block, str(tmp_path), number) for number in range(3, 6)]
        wait(futures, 60)
        unread = blocks_of(cluster.agent.pid)
        cluster.restart()
        for number in (0, 3):
            assert futures[number].result(60) == bytes([number]) * SIZE
        cluster.restart()
        assert [future.result(60) for future in futures] == [bytes([number]) * SIZE for number in range(6)]
        assert runs(tmp_path) == dict.fromkeys(range(6), 1)
        wait_until(lambda: blocks_of(cluster.agent.pid) <= unread - 4, "the agent has dropped what was claimed")


def noted_until(folder: Path, number: int) -> int:
    (folder / str(number)).touch()
    wait_until((folder / "go").exists, "it may end")
    return number


def test_tasks_that_no_agent_has_need_no_time_out_though_the_scheduler_was_young(
    cluster: Cluster, tmp_path: Path
) -> None:
    with Client(cluster.address) as client:
        once = client.options(at_most_once=True)
        futures = [once.submit(noted_until, tmp_path, number) for number in range(3)]
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "two run, and one waits at the scheduler")
        cluster.restart()
        begun = {int(file.name) for file in tmp_path.iterdir()}
        (waits,) = set(range(3)) - begun
        assert isinstance(futures[waits].exception(30), TaskNotFoundError), "30 s are half of the time-out of clients"
        (tmp_path / "go").touch()
        assert {futures[number].result(60) for number in begun} == begun


def test_a_graph_continues_with_the_values_of_its_nodes(cluster: Cluster, tmp_path: Path) -> None:
    with Client(cluster.address) as client:
        graph = {
            "a": (block, tmp_path, 1),
            "b": (block, tmp_path, 2),
            "c": (late_end_of, "a", 2.0),
            "d": (len, "b"),
        }
        futures = client.get(graph, ["b", "c"], block=False)
        assert futures["b"].exception(60) is None
        wait_until(lambda: runs(tmp_path) == {1: 1, 2: 1}, "both are made")
        time.sleep(0.3)
        cluster.restart()
        assert futures["c"].result(60) == b"\1"
        assert futures["b"].result(60) == b"\2" * SIZE
    assert runs(tmp_path) == {1: 1, 2: 1}


def test_results_of_a_graph_that_has_ended_are_arguments_after_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    with Client(cluster.address) as client:
        futures = client.get({"a": (block, tmp_path, 1), "b": (block, tmp_path, 2)}, ["a", "b"], block=False)
        wait(list(futures.values()), 60)
        cluster.restart()
        assert client.submit(len, futures["a"]).result(60) == SIZE
        assert futures["b"].result(60) == b"\2" * SIZE
    assert runs(tmp_path) == {1: 1, 2: 1}


def test_a_task_reads_what_its_children_have_made(cluster: Cluster, tmp_path: Path) -> None:
    go_on, folder = tmp_path / "go_on", tmp_path / "blocks"
    folder.mkdir()
    with Client(cluster.address) as client:
        future = client.submit(children, str(folder), str(go_on))
        wait_until(go_on.exists, "its children have ended")
        cluster.restart()
        go_on.unlink()
        assert future.result(60) == [(number, SIZE) for number in range(3)]
    assert runs(folder) == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize("cluster", [("--client-timeout-seconds", "3", "--worker-timeout-seconds", "3")], indirect=True)
def test_an_unclaimed_result_is_dropped(cluster: Cluster, tmp_path: Path) -> None:
    with Client(cluster.address) as client:
        futures = [client.submit(block, str(tmp_path), number) for number in range(4)]
        wait(futures, 60)
        unread = blocks_of(cluster.agent.pid)
        cluster.kill()
        del futures[1:]
        cluster.start()
        wait_until(lambda: blocks_of(cluster.agent.pid) <= unread - 3, "the agent has dropped three", 20)
        assert futures[0].result(60) == bytes(SIZE)
    assert runs(tmp_path) == dict.fromkeys(range(4), 1)
