"""Large results stay with the agent that made them. What becomes of them when that, or another process, is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest

from scaler import Client
from scaler.errors import MissingObjects
from scaler.process.meters import peak_bytes
from tests.support.processes import Command, command, free_address, scheduler, wait_until

pytestmark = pytest.mark.faults

SIZE = 1_500_000


def block(folder: str | Path, number: int, size: int = SIZE) -> bytes:
    with Path(folder, str(number)).open("a") as file:
        file.write("x")
    return bytes([number]) * size


def end_of(data: bytes) -> bytes:
    return data[-1:]


def late_end_of(data: bytes, seconds: float) -> bytes:
    time.sleep(seconds)
    return data[-1:]


def kill(running: Command) -> None:
    os.kill(running.pid, signal.SIGKILL)
    running.end()


@pytest.fixture
def cluster() -> Iterator[tuple[str, Command]]:
    address = free_address()
    with scheduler(address) as (_, first):
        yield address, first


def test_results_pass_the_scheduler_by_and_are_gone_when_they_were_read(cluster: tuple[str, Command]) -> None:
    address, running = cluster
    with command("cluster", address, "-n", "2") as agent, Client(address) as client:
        before = peak_bytes(running.pid)
        futures = [client.submit(bytes, 20_000_000) for _ in range(5)]
        wait(futures, 60)
        unread = blocks_of(agent.pid)
        assert all(len(future.result(60)) == 20_000_000 for future in futures)
        assert peak_bytes(running.pid) - before < 15_000_000
        wait_until(lambda: blocks_of(agent.pid) <= unread - 5, "the agent has dropped them")


def blocks_of(pid: int) -> int:
    """Return how many memories a process has open that others can map."""
    return sum(
        "memfd:scaler" in str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()
    )


def test_results_of_a_killed_agent_are_made_again_by_another(cluster: tuple[str, Command], tmp_path: Path) -> None:
    address, _ = cluster
    with Client(address) as client:
        with command("cluster", address, "-n", "2") as first:
            futures = [client.submit(block, str(tmp_path), number) for number in range(4)]
            wait(futures, 60)
            assert futures[0].result(30) == bytes(SIZE)
            kill(first)
        with command("cluster", address, "-n", "2"):
            assert [future.result(60)[-1] for future in futures] == [0, 1, 2, 3]
        runs = [Path(tmp_path, str(number)).read_text() for number in range(4)]
        assert runs == ["x", "xx", "xx", "xx"]


def test_a_result_that_may_not_be_made_again_names_its_cluster(cluster: tuple[str, Command], tmp_path: Path) -> None:
    address, _ = cluster
    with Client(address) as client:
        with command("cluster", address, "-n", "1", "--worker-names", "lost-one") as first:
            future = client.options(at_most_once=True).submit(block, str(tmp_path), 1)
            wait([future], 60)
            kill(first)
        with command("cluster", address, "-n", "1"), pytest.raises(MissingObjects, match=r"lost-one.*at_most_once"):
            future.result(60)
    assert Path(tmp_path, "1").read_text() == "x"


def test_a_graph_goes_on_when_the_agent_with_its_values_is_killed(cluster: tuple[str, Command], tmp_path: Path) -> None:
    address, _ = cluster
    folder = tmp_path  # a string would be the name of a node
    with Client(address) as client:
        with command("cluster", address, "-n", "2") as first:
            graph = {
                "a": (block, folder, 1),
                "b": (block, folder, 2),
                "c": (late_end_of, "a", 3.0),
                "d": (end_of, "b"),
                "e": (bytes.__add__, "c", "d"),
            }
            futures = client.get(graph, ["c", "e"], block=False)
            wait_until(lambda: Path(tmp_path, "2").exists() and Path(tmp_path, "1").exists(), "both are made")
            time.sleep(0.5)
            kill(first)
        with command("cluster", address, "-n", "2"):
            assert [futures[key].result(60) for key in "ce"] == [b"\1", b"\1\2"]


def test_a_drain_hands_the_values_over(cluster: tuple[str, Command], tmp_path: Path) -> None:
    address, _ = cluster
    with Client(address) as client:
        with command("cluster", address, "-n", "2", "--drain", "30") as first:
            futures = [client.submit(block, str(tmp_path), number) for number in range(4)]
            wait(futures, 60)
            first.signal(signal.SIGTERM)
            first.wait_for("cluster ended")
        assert [future.result(60)[-1] for future in futures] == [0, 1, 2, 3]
    assert [Path(tmp_path, str(number)).read_text() for number in range(4)] == ["x"] * 4


def test_a_client_that_shares_no_memory_gets_the_bytes(
    cluster: tuple[str, Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = cluster
    with command("cluster", address, "-n", "2"):
        monkeypatch.setenv("SCALER_SHARED_MEMORY", "0")
        with Client(address) as client:
            futures = [client.submit(block, str(tmp_path), number) for number in range(4)]
            assert [future.result(60)[-1] for future in futures] == [0, 1, 2, 3]


def test_values_of_a_client_that_left_are_dropped_by_the_agent(cluster: tuple[str, Command], tmp_path: Path) -> None:
    address, _ = cluster
    with command("cluster", address, "-n", "2") as agent:
        client = Client(address)
        futures = [client.submit(block, str(tmp_path), number) for number in range(4)]
        wait(futures, 60)
        unread = blocks_of(agent.pid)
        client.disconnect()
        wait_until(lambda: blocks_of(agent.pid) <= unread - 4, "the agent has dropped them")
