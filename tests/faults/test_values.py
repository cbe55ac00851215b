"""Large results stay with the agent that made them. What becomes of them when that, or another process, is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest

from scaler import Client
from scaler.errors import MissingObjects
from scaler.process.meters import peak_bytes
from tests.support.processes import REPOSITORY, Command, command, free_address, scheduler, wait_until
from tests.support.proxy import Proxy

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


def test_results_bypass_the_scheduler_and_are_removed_after_they_were_read(cluster: tuple[str, Command]) -> None:
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


def test_a_graph_continues_when_the_agent_with_its_values_is_killed(
    cluster: tuple[str, Command], tmp_path: Path
) -> None:
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


READER = """
import sys
from concurrent.futures import wait
from scaler import Client

def make(n):
    return bytes(range(256)) * (n // 256)

def count(data):
    return len(data), data == bytes(range(256)) * (len(data) // 256)

address, size = sys.argv[1], int(sys.argv[2])
with Client(address, timeout_seconds=60) as client:
    future = client.submit(make, size)
    wait([future], 60)
    print("made", flush=True)
    print(*count(future.result(60)), flush=True)
"""
"""It is on another host, as far as it and the others know: it shares no memory."""


@contextlib.contextmanager
def reader(address: str, size: int) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "SCALER_SHARED_MEMORY": "0"}
    program = [sys.executable, "-c", READER, address, str(size)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment, cwd=REPOSITORY) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "made\n"
            yield process
        finally:
            process.kill()


def read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("size", [38_400_000, pytest.param(307_200_000, marks=[pytest.mark.more, pytest.mark.alone])])
def test_the_memory_of_the_scheduler_does_not_grow_with_a_value_that_passes(
    cluster: tuple[str, Command], size: int
) -> None:
    address, running = cluster
    with command("cluster", address, "-n", "1"):
        before = peak_bytes(running.pid)
        with reader(address, size) as process:
            assert read(process) == f"{size} True\n"
        assert peak_bytes(running.pid) - before < 16_000_000


def test_a_value_transfer_resumes_where_it_was_interrupted(cluster: tuple[str, Command]) -> None:
    """Both of its connections, one after the other, while it is on its way."""
    address, _ = cluster
    with Proxy(address, rate=20_000_000) as up, Proxy(address, rate=10_000_000) as down:
        with command("cluster", up.address, "-n", "1"), reader(down.address, 10_240_000) as process:
            for proxy in (down, up, down):
                more = down.n_bytes[1] + 1_000_000
                wait_until(lambda more=more: down.n_bytes[1] > more, "some of it has come")
                proxy.reset()
            assert read(process) == "10240000 True\n"
        assert down.n_bytes[1] < 2 * 10_240_000, "it did not begin anew"


def test_a_value_whose_agent_is_killed_while_it_passes_is_made_again(cluster: tuple[str, Command]) -> None:
    address, _ = cluster
    first = command("cluster", address, "-n", "1")
    with Proxy(address, rate=5_000_000) as down, first as agent, reader(down.address, 10_240_000) as process:
        wait_until(lambda: down.n_bytes[1] > 1_000_000, "some of it has come")
        kill(agent)
        with command("cluster", address, "-n", "1"):
            assert read(process) == "10240000 True\n"
