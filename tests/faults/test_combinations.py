"""Several things go wrong at once: none of them alone shows what they do together."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import psutil
import pytest

from scaler import Client
from scaler.errors import MissingObjects
from scaler.shared_memory import SHARING_VARIABLE
from tests.support.keys import make
from tests.support.processes import Command, command, fork_server_of, free_address, scheduler, wait_until
from tests.support.proxy import Proxy

pytestmark = pytest.mark.faults

MORE = pytest.mark.more


def noted(folder: str, number: int, size: int, seconds: float = 0.0) -> bytes:
    """A task that says in a file that it begins."""
    with Path(folder, str(number)).open("a") as file:
        file.write("x")
    time.sleep(seconds)
    return bytes([number % 256]) * size


def executions(folder: Path) -> list[int]:
    return [len(path.read_text()) for path in folder.iterdir()]


def double(number: int) -> int:
    with Client() as client:
        return sum(client.map(abs, [(number,), (-number,)]))


def test_processors_start_although_their_log_folder_was_deleted(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "1", "-lp", str(logs / "log"), "/dev/stdout") as agent,
        Client(address) as client,
    ):
        first = client.submit(os.getpid).result(60)
        shutil.rmtree(logs)
        os.kill(first, signal.SIGKILL)
        assert client.submit(os.getpid).result(60) != first
        wait_until(lambda: agent.output.count("ended") == 1, "the end of the first one is told")


@MORE
def test_an_agent_without_free_descriptors_continues_once_some_are_free(tmp_path: Path) -> None:
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "2") as agent,
        Client(address) as client,
    ):
        wait([client.submit(double, number) for number in range(4)], 60)
        process = psutil.Process(agent.pid)
        before = process.rlimit(psutil.RLIMIT_NOFILE)
        process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() - 4, before[1]))
        futures = [client.submit(double, number) for number in range(20)]
        for processor in psutil.Process(agent.pid).children()[0].children():
            with contextlib.suppress(psutil.Error):
                processor.kill()
        wait_until(lambda: agent.output.count("Too many open files") > 8, "processors do not start")
        process.rlimit(psutil.RLIMIT_NOFILE, before)
        assert [future.result(60) for future in futures] == [2 * number for number in range(20)]


@MORE
def test_a_result_that_travels_when_its_scheduler_is_killed_and_its_client_cut_off_arrives(tmp_path: Path) -> None:
    size, address = 50_000_000, free_address()
    make(address)  # the proxy is there before the scheduler
    with (
        pytest.MonkeyPatch.context() as environment,
        Proxy(address, 40_000_000) as near_client,
        contextlib.ExitStack() as first,
    ):
        environment.setenv("SCALER_SHARED_MEMORY", "0")
        _, running = first.enter_context(scheduler(address))
        with command("cluster", address, "-n", "2"), Client(near_client.address) as client:
            future = client.submit(noted, str(tmp_path), 7, size)
            found: list[bytes] = []
            reader = threading.Thread(target=lambda: found.append(future.result(120)))
            reader.start()
            wait_until(lambda: near_client.n_bytes[1] > size // 3, "a third of it has passed")
            near_client.swallow()
            running.signal(signal.SIGKILL)
            running.end()
            with scheduler(address):
                near_client.reset()
                near_client.pass_on()
                reader.join(120)
                assert found == [bytes([7]) * size]
                assert client.submit(abs, -3).result(60) == 3
    assert executions(tmp_path) in ([1], [2])  # its agent may still have had it


@MORE
def test_large_results_of_an_agent_that_was_stopped_for_too_long_are_right(tmp_path: Path) -> None:
    """Its processes go on while it is stopped, and give it their results when it is back."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SCALER_SHARED_MEMORY", "0")
        with (
            scheduler(None, "-wt", "1", "-ct", "60") as (address, running),
            command("cluster", address, "-n", "2", "-hi", "0.3") as agent,
            Client(address) as client,
        ):
            client.wait_for_workers(2, 60)
            with command("cluster", address, "-n", "1", "-hi", "0.3"):
                futures = [client.submit(noted, str(tmp_path), number, 2_000_000, 0.02) for number in range(40)]
                wait_until(lambda: len(list(tmp_path.iterdir())) > 8, "they run", pause_seconds=0.001)
                agent.signal(signal.SIGSTOP)
                wait_until(lambda: "is lost: it was silent" in running.output, "it was silent for too long")
                agent.signal(signal.SIGCONT)
                assert all(future.result(60) == bytes([n]) * 2_000_000 for n, future in enumerate(futures))
                client.wait_for_workers(3, 60)
    assert max(executions(tmp_path)) <= 2


@MORE
def test_fork_server_and_scheduler_are_killed_together_again_and_again(tmp_path: Path) -> None:
    address = free_address()
    with contextlib.ExitStack() as stack:
        running = Command("scheduler", address)
        stack.callback(lambda: running.kill_all())  # noqa: PLW0108 - whichever runs then
        agent = stack.enter_context(command("cluster", address, "-n", "2"))
        client = stack.enter_context(Client(address))
        client.wait_for_workers(2, 60)
        futures = [client.submit(noted, str(tmp_path), number, 2_000_000, 0.05) for number in range(60)]
        parents = [client.submit(double, number) for number in range(4)]
        for fault in range(3):
            wait_until(lambda begun=10 * fault + 5: len(list(tmp_path.iterdir())) > begun, "they run")
            server = fork_server_of(agent.pid)
            if server is not None:
                server.kill()
            running.kill_all()
            running = Command("scheduler", address)
        assert all(future.result(120) == bytes([n]) * 2_000_000 for n, future in enumerate(futures))
        assert [parent.result(60) for parent in parents] == [0, 2, 4, 6]
    assert max(executions(tmp_path)) <= 4


def stranger(address: str, answer: bytes | None, stop: threading.Event) -> None:
    """Listen at the address of a scheduler, and give everybody this answer; None: hang up."""
    host, port = address.removeprefix("tcp://").split(":")
    with socket.create_server((host, int(port))) as server, contextlib.ExitStack() as stack:
        server.settimeout(0.05)
        while not stop.is_set():
            with contextlib.suppress(OSError):
                connection = stack.enter_context(server.accept()[0])
                if answer is None:
                    connection.close()
                else:
                    connection.sendall(answer)


@contextlib.contextmanager
def strangers(address: str, answer: bytes | None) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=stranger, args=(address, answer, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@MORE
def test_programs_that_listen_at_the_address_of_a_killed_scheduler_do_no_harm(tmp_path: Path) -> None:
    with contextlib.ExitStack() as first:
        address, running = first.enter_context(scheduler())
        with command("cluster", address, "-n", "2") as agent, Client(address) as client:
            futures = [client.submit(noted, str(tmp_path), number, 10, 0.1) for number in range(20)]
            wait_until(lambda: len(list(tmp_path.iterdir())) > 3, "they run")
            running.kill_all()
            for answer in (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", b"", bytes(5000), None):
                with strangers(address, answer):
                    time.sleep(0.7)
            with scheduler(address):
                assert [future.result(60) for future in futures] == [bytes([number]) * 10 for number in range(20)]
                assert agent.process.poll() is None
    assert executions(tmp_path) == [1] * 20


def limit_memory(pid: int, spare_bytes: int) -> None:
    """Let a process have so much more than it has."""
    process = psutil.Process(pid)
    most = process.memory_info().vms + spare_bytes
    process.rlimit(psutil.RLIMIT_AS, (most, most))


@MORE
def test_a_value_for_which_an_agent_has_no_memory_costs_its_task_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARING_VARIABLE, "0")
    size, spare = 60_000_000, 30_000_000
    with (
        scheduler() as (address, running),
        command("cluster", address, "-n", "1") as cluster,
        Client(address, timeout_seconds=50) as client,
    ):
        assert client.submit(abs, -1).result(60) == 1
        limit_memory(cluster.pid, spare)
        with pytest.raises(MissingObjects, match=r"its worker's host has no memory for its 60,000,"):
            client.submit(len, bytes(size)).result(60)
        assert client.submit(abs, -2).result(60) == 2
        assert running.process.poll() is None
        assert cluster.process.poll() is None


LACKS_MEMORY = """
import resource, sys, psutil
from scaler import Client
from scaler.errors import DeserializeObjectError

with Client(sys.argv[1], timeout_seconds=50) as client:
    assert client.submit(abs, -1).result(60) == 1
    most = psutil.Process().memory_info().vms + 30_000_000
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    large, small = client.submit(bytes, 60_000_000), client.submit(abs, -2)
    try:
        large.result(60)
    except DeserializeObjectError as error:
        print(error)
    print(small.result(60), client.map(abs, [(-3,)]))
"""


@MORE
def test_a_client_without_memory_for_a_result_loses_that_result_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARING_VARIABLE, "0")
    with scheduler() as (address, running), command("cluster", address, "-n", "1"):
        done = subprocess.run(
            [sys.executable, "-c", LACKS_MEMORY, address], check=False, capture_output=True, text=True, timeout=100
        )
        assert running.process.poll() is None
    lines = done.stdout.splitlines()
    assert lines == [lines[0], "2 [3]"], done.stderr
    assert "task bytes" in lines[0]
    assert "its result cannot be read here: MemoryError: the value has 60,000,1" in lines[0]
