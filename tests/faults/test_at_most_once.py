"""With `at_most_once`, a task that may have been started is never started again: a typed error comes instead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest

from scaler import Client
from scaler.errors import MissingObjects, ProcessorDiedError, TaskNotFoundError, WorkerDiedError
from tests.support.processes import Command, command, free_address, scheduler, wait_until

pytestmark = pytest.mark.faults


@pytest.fixture
def parts() -> Iterator[tuple[str, Command, Command]]:
    address = free_address()
    with scheduler(address, "-ct", "4") as (_, first), command("cluster", address, "-n", "1") as cluster:
        yield address, first, cluster


def kill(part: Command) -> None:
    os.kill(part.pid, signal.SIGKILL)
    part.end()


def noted(folder: str, name: str, size: int = 0) -> bytes:
    """Note that it begins; without a size, wait for ever."""
    with Path(folder, name).open("a") as file:
        file.write("x")
    while not size:
        time.sleep(0.01)
    return b"x" * size


def die(folder: str) -> None:
    Path(folder, "dying").touch()
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(path: Path) -> None:
    wait_until(path.exists, f"{path.name} has begun")


def test_a_task_whose_process_or_worker_died_fails(parts: tuple[str, Command, Command], tmp_path: Path) -> None:
    address, _, cluster = parts
    with Client(address) as client:
        once = client.options(at_most_once=True)
        with pytest.raises(ProcessorDiedError, match="at_most_once"):
            once.submit(die, str(tmp_path)).result(60)
        future = once.submit(noted, str(tmp_path), "a")
        wait_for(tmp_path / "a")
        kill(cluster)
        with command("cluster", address, "-n", "1"), pytest.raises(WorkerDiedError, match="at_most_once"):
            future.result(60)
    assert (tmp_path / "a").read_text() == "x"


def test_tasks_that_only_wait_at_a_cluster_that_leaves_run_elsewhere(
    parts: tuple[str, Command, Command], tmp_path: Path
) -> None:
    address, _, cluster = parts
    with Client(address) as client:
        once = client.options(at_most_once=True)
        once.map(row, [(number, str(tmp_path), 0.001, False) for number in range(50)])
        long = once.submit(row, 100, str(tmp_path), 60.0, False)
        waiting = [once.submit(row, number, str(tmp_path), 0.001, False) for number in range(101, 121)]
        wait_until(lambda: 100 in begun_in(tmp_path), "the long one has begun")
        os.kill(cluster.pid, signal.SIGTERM)
        with command("cluster", address, "-n", "1"):
            assert [future.result(60) for future in waiting] == list(range(101, 121))
            with pytest.raises(WorkerDiedError, match="at_most_once"):
                long.result(60)
    assert set(begun_in(tmp_path).values()) == {1}


def row(number: int, folder: str, seconds: float, dies: bool) -> int:
    """Note that a row begins, in a file of its process."""
    with Path(folder, str(os.getpid())).open("a") as file:
        file.write(f"{number}\n")
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds)
    return number


def begun_in(folder: Path) -> Counter[int]:
    return Counter(int(line) for file in folder.iterdir() for line in file.read_text().split())


def test_rows_before_and_behind_one_whose_process_dies_run_once(
    parts: tuple[str, Command, Command], tmp_path: Path
) -> None:
    with Client(parts[0]) as client:
        items = [(number, str(tmp_path), 0, number in (400, 401, 900)) for number in range(1000)]
        results = client.options(at_most_once=True).map(row, items, return_exceptions=True)
    failed = [number for number, result in enumerate(results) if isinstance(result, ProcessorDiedError)]
    assert failed == [400, 401, 900]
    assert [result for number, result in enumerate(results) if number not in failed] == [
        number for number in range(1000) if number not in failed
    ]
    assert begun_in(tmp_path) == Counter(range(1000))


@pytest.mark.more
def test_rows_that_a_lost_cluster_had_no_orders_for_run_elsewhere(
    parts: tuple[str, Command, Command], tmp_path: Path
) -> None:
    address, _, cluster = parts
    with Client(address) as client:
        client.map(time.sleep, [(0.005,)] * 20)
        items = [(number, str(tmp_path), 0.005, False) for number in range(600)]
        rows = client.options(at_most_once=True).map_unordered(row, items, return_exceptions=True)
        ended = [next(rows) for _ in range(100)]
        kill(cluster)
        with command("cluster", address, "-n", "1"):
            ended += list(rows)
    begun, done = begun_in(tmp_path), {number for number in ended if isinstance(number, int)}
    lost = [error for error in ended if isinstance(error, WorkerDiedError)]
    assert len(done) + len(lost) == 600
    assert 1 <= len(lost) < 100, "some 50 ms of work are with a worker"
    assert set(begun.values()) == {1}
    assert done <= set(begun)


def test_a_task_that_was_lost_with_all_of_its_cluster_and_scheduler_fails(
    parts: tuple[str, Command, Command], tmp_path: Path
) -> None:
    address, first, cluster = parts
    with Client(address) as client:
        once = client.options(at_most_once=True)
        unread = once.submit(noted, str(tmp_path), "unread", 200_000)
        wait([unread], 60)
        future = once.submit(noted, str(tmp_path), "a")
        wait_for(tmp_path / "a")
        kill(first)
        kill(cluster)
        with scheduler(address, "-ct", "4"), command("cluster", address, "-n", "1"):
            with pytest.raises(MissingObjects, match="at_most_once"):
                unread.result(60)
            with pytest.raises(TaskNotFoundError, match="at_most_once"):
                future.result(60)
            assert len(once.submit(noted, str(tmp_path), "b", 10).result(60)) == 10
    assert [(tmp_path / name).read_text() for name in ("unread", "a", "b")] == ["x", "x", "x"]


AWAY = """
import os, sys, time
from collections import Counter
from scaler import Client
def work(folder, number):
    with open(os.path.join(folder, str(number)), "a") as file:
        file.write("x")
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
with Client(sys.argv[1], heartbeat_interval_seconds=0.2) as client:
    once = client.options(at_most_once=True)
    futures = [once.submit(work, sys.argv[2], number) for number in range(40)]
    print("submitted", flush=True)
    print(Counter(type(future.exception(60)).__name__ for future in futures), flush=True)
"""


@pytest.mark.more
def test_tasks_that_only_waited_while_their_client_was_away_for_too_long_run(tmp_path: Path) -> None:
    with scheduler(None, "-ct", "1") as (address, running), command("cluster", address, "-n", "1"):
        program = subprocess.Popen([sys.executable, "-c", AWAY, address, tmp_path], stdout=subprocess.PIPE, text=True)
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "submitted\n"
            wait_for(tmp_path / "0")
            program.send_signal(signal.SIGSTOP)
            running.wait_for("is lost: it was silent")
            Path(tmp_path, "go").touch()
            program.send_signal(signal.SIGCONT)
            assert program.communicate(timeout=60)[0] == "Counter({'NoneType': 39, 'TaskNotFoundError': 1})\n"
        finally:
            program.kill()
            program.wait()
    assert {(tmp_path / str(number)).read_text() for number in range(40)} == {"x"}
