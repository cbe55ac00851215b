"""What is left of much work: nothing in the scheduler's tables, and no memory that grows with it."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import psutil
import pytest

from scaler import Client
from tests.support.processes import command, scheduler, wait_until

MB = 1_000_000


def highest_memory(pid: int) -> int:
    """Return the most bytes of memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def echo(value: bytes) -> bytes:
    return value


def work(client: Client, n_tasks: int) -> None:
    """Small tasks and large ones, results that are read and some that are not, objects, and a task that fails."""
    client.map(pow, [(2, n % 50) for n in range(n_tasks)])
    reference = client.send_object(os.urandom(100_000))
    futures = [client.submit(len, reference) for _ in range(5)]
    futures += [client.submit(echo, bytes(100_000)) for _ in range(5)]
    futures += [client.submit(lambda n=n: n / 0) for n in range(3)]
    assert futures[0].result(30) == 100_000
    assert len(futures[5].result(30)) == 100_000
    assert isinstance(futures[-1].exception(30), ZeroDivisionError)
    assert client.get({"a": 2, "b": (pow, "a", 3)}, ["b"]) == {"b": 8}


def test_nothing_is_left_in_the_scheduler_of_clients_that_left(tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    options = ("-ot", "0", "--audit-file", str(audit))
    with scheduler(None, *options) as (address, running), command("cluster", address, "-n", "2"):
        for number in range(5):
            with Client(address) as client:
                work(client, 500)
                client.submit(echo, number)  # left open
        with Client(address) as client:
            assert client.map(pow, [(2, 3)] * 10) == [8] * 10  # no task of a client that left is in the way
        wait_until(lambda: audit.read_text().count('"event": "ended"') == 6, "the sessions of all clients have ended")
        running.signal(signal.SIGTERM)
        statistics = running.wait_for("scheduler: ended")
        running.end()
    assert "; 0 could not be read, " in statistics
    assert ", 0 of its actors' handlers failed; " in statistics
    empty = "objects 0, object bytes 0, object owners 0, retained objects 0, actors with mail 0"
    assert f"; left at the end: sessions 1, {empty}" in statistics  # the session is the cluster's


@pytest.mark.more
def test_memory_of_scheduler_and_agent_does_not_grow_with_the_number_of_tasks_and_clients() -> None:
    with (
        scheduler(None, "-ot", "0") as (address, running),
        command("cluster", address, "-n", "2", "-gc", "0.5", "-tm", "0") as cluster,
    ):
        processes = [psutil.Process(pid) for pid in (running.pid, cluster.pid)]

        def run(rounds: int) -> list[int]:
            with Client(address) as client:
                for _ in range(rounds):
                    work(client, 20_000)
            for _ in range(rounds * 10):
                with Client(address) as client:
                    work(client, 10)
            return [process.memory_info().rss for process in processes]

        before = run(3)  # the first bursts of work decide how much memory the allocator keeps
        for _ in range(3):  # a burst may be larger on a busy machine, but not each time
            after = run(8)
            grown = [(b, a) for b, a in zip(before, after, strict=True) if a > b + 10 * MB]
            if not grown:
                break
            before = after
        assert grown == []


def test_large_results_take_no_memory_of_the_scheduler() -> None:
    with (
        scheduler() as (address, running),
        command("cluster", address, "-n", "2"),
        Client(address) as client,
    ):
        process = psutil.Process(running.pid)
        client.submit(bytes, 100_000).result(30)
        before = process.memory_info().rss
        futures = [client.submit(bytes, 100_000) for _ in range(1000)]
        assert all(future.exception(30) is None for future in futures)
        assert process.memory_info().rss < before + 30 * MB
        assert [len(future.result(30)) for future in futures[::250]] == [100_000] * 4


@pytest.mark.parametrize(
    ("count", "window_bytes", "most_bytes"),
    [(800, 8 * MB, 45 * MB), pytest.param(8000, 128 * 1024 * 1024, 300 * MB, marks=pytest.mark.soak)],
)
def test_arguments_beyond_the_window_of_a_client_wait_in_the_client(
    count: int, window_bytes: int, most_bytes: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`submit` does not block, or this would never end: workers come after the last call. And nothing is refused."""
    monkeypatch.setenv("SCALER_SHARED_MEMORY", "0")
    with scheduler(None, "--client-bytes", str(window_bytes)) as (address, running):
        base = psutil.Process(running.pid).memory_info().rss if count < 1000 else 0
        with Client(address) as client, caplog.at_level(logging.INFO, "scaler.client"):
            futures = [client.submit(len, bytes(100_000)) for _ in range(count)]
            wait_until(lambda: "which is its limit" in caplog.text, "the window is full")
            with command("cluster", address, "-n", "1", env={"SCALER_SHARED_MEMORY": "0"}):
                assert {future.result(60) for future in futures} == {100_000}
            assert caplog.text.count("which is its limit") == 1
            highest = highest_memory(running.pid)
            assert highest - base < most_bytes
