"""`hard_processor_suspend`: the process of a task that waits is really stopped, and nothing stands still for it."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import alive, command, descendants, scheduler, wait_until
from tests.support.timing import at_best

SECONDS = 60


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """One worker with one place: whatever could stand still does."""
    with SchedulerClusterCombo(
        n_workers=1, per_worker_queue_size=1, hard_processor_suspend=True, logging_level="WARNING"
    ) as one:
        yield one.get_address()


def increment(value: int) -> int:
    return value + 1


def fibonacci(client: Client, n: int) -> int:
    if n < 2:
        return n
    first, second = client.submit(fibonacci, client, n - 1), client.submit(fibonacci, client, n - 2)
    return int(first.result() + second.result())


def wait_for_file(path: str) -> str:
    while not (Path(path).exists() and Path(path).read_text()):  # a file is there before its text
        time.sleep(0.01)
    return Path(path).read_text()


def parent(client: Client, pid_path: str, path: str) -> str:
    future = client.submit(wait_for_file, path)
    Path(pid_path).write_text(str(os.getpid()))
    return str(future.result())


def parent_with_finally(client: Client, pid_path: str, path: str, end_path: str) -> str:
    try:
        return parent(client, pid_path, path)
    finally:
        Path(end_path).touch()


def map_children(client: Client, count: int) -> int:
    return sum(client.map(increment, [(value,) for value in range(count)]))


def map_parents(client: Client, count: int) -> int:
    return sum(client.map(map_children, [(client, value) for value in range(count)]))


def large_children(client: Client, count: int) -> int:
    graph = {f"n{index}": (bytes, size) for index, size in enumerate(range(300_000, 300_000 + count))}
    values = client.get(graph, list(graph))
    return sum(map(len, values.values())) + len(client.submit(bytes, 1_000_000).result())


def begin_and_wait_for_file(begun_path: str, path: str) -> str:
    Path(begun_path).write_text("begun")
    return wait_for_file(path)


def wait_with_timeout(client: Client, pid_path: str, begun_path: str, path: str) -> tuple[str, float]:
    future = client.submit(begin_and_wait_for_file, begun_path, path)
    wait_for_file(begun_path)  # at another worker, then: behind this task there is no place before it waits
    Path(pid_path).write_text(str(os.getpid()))
    start = time.monotonic()
    try:
        future.result(timeout=1.5)
    except concurrent.futures.TimeoutError:  # the builtin one since Python 3.11
        return "timed out", time.monotonic() - start
    return "arrived", time.monotonic() - start


def is_stopped(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def new_folders(folder: Path) -> Iterator[Path]:
    for number in itertools.count():
        (folder / str(number)).mkdir()
        yield folder / str(number)


def pid_in(path: Path) -> int:
    return int(wait_until(lambda: path.exists() and path.read_text(), f"{path} is written"))


def wait_until_stopped(pid_path: Path) -> int:
    pid = pid_in(pid_path)
    wait_until(lambda: is_stopped(pid), "the parent is stopped")
    return pid


def test_the_process_of_a_waiting_parent_is_stopped_until_its_child_has_ended(client: Client, tmp_path: Path) -> None:
    folders = new_folders(tmp_path)

    def seconds_to_go_on() -> float:
        folder = next(folders)
        future = client.submit(parent, client, str(folder / "pid"), str(folder / "go"))
        pid = wait_until_stopped(folder / "pid")
        (folder / "go").write_text("gone")
        start = time.monotonic()
        assert future.result(SECONDS) == "gone"
        assert not is_stopped(pid)
        return time.monotonic() - start

    assert at_best(seconds_to_go_on, 1) < 1  # by an event, and not by the next breath


def test_a_blocked_process_is_not_stopped_without_the_option(tmp_path: Path) -> None:
    path = tmp_path / "go"
    with (
        SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo,
        Client(combo.get_address()) as client,
    ):
        future = client.submit(parent, client, str(tmp_path / "pid"), str(path))
        pid = pid_in(tmp_path / "pid")
        for _ in range(50):
            assert not is_stopped(pid)
            time.sleep(0.01)
        path.write_text("gone")
        assert future.result(SECONDS) == "gone"


def test_the_option_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "go"
    with scheduler() as (address, _), command("cluster", address, "-n", "1", "-hps"), Client(address) as client:
        future = client.submit(parent, client, str(tmp_path / "pid"), str(path))
        wait_until_stopped(tmp_path / "pid")
        path.write_text("gone")
        assert future.result(SECONDS) == "gone"


def test_fibonacci(client: Client) -> None:
    assert client.submit(fibonacci, client, 8).result(SECONDS) == 21

    def again() -> float:
        start = time.monotonic()
        assert client.submit(fibonacci, client, 8).result(SECONDS) == 21
        return time.monotonic() - start

    assert at_best(again, 4) < 4  # not one of its 33 waits took until the next breath


@pytest.mark.parametrize(
    ("function", "count", "expected"),
    [
        (map_children, 1000, sum(range(1, 1001))),
        (map_parents, 10, sum(sum(range(1, count + 1)) for count in range(10))),
        (large_children, 5, sum(range(300_000, 300_005)) + 1_000_000),
    ],
    ids=["map", "map in map", "graph and large results"],
)
def test_every_way_to_wait(client: Client, function: Callable[..., int], count: int, expected: int) -> None:
    assert client.submit(function, client, count).result(SECONDS) == expected


def test_a_wait_that_times_out_does_so_in_time(tmp_path: Path) -> None:
    with (
        SchedulerClusterCombo(
            n_workers=2, per_worker_queue_size=1, hard_processor_suspend=True, logging_level="WARNING"
        ) as combo,
        Client(combo.get_address()) as client,
    ):
        folders = new_folders(tmp_path)

        def seconds_of_the_wait() -> float:
            pid, begun, go = (str(next(folders) / name) for name in ("pid", "begun", "go"))
            future = client.submit(wait_with_timeout, client, pid, begun, go)
            wait_until_stopped(Path(pid))
            how, seconds = future.result(SECONDS)
            Path(go).write_text("gone")
            assert how == "timed out"
            assert seconds >= 1.5
            return float(seconds)

        assert at_best(seconds_of_the_wait, 4) < 4


def test_a_stopped_parent_that_is_cancelled_ends_at_once_and_in_good_order(client: Client, tmp_path: Path) -> None:
    path, end_path = tmp_path / "go", tmp_path / "end"
    future = client.submit(parent_with_finally, client, str(tmp_path / "pid"), str(path), str(end_path))
    pid = wait_until_stopped(tmp_path / "pid")
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(SECONDS)
    wait_until(end_path.exists, "its finally has run")
    assert client.submit(increment, 1).result(SECONDS) == 2  # so the only place is free: the child has ended too
    assert not alive(pid) or not is_stopped(pid)


@pytest.mark.more
def test_a_stopped_parent_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with (
        SchedulerClusterCombo(
            n_workers=1, hard_processor_suspend=True, task_timeout_seconds=3, logging_level="WARNING"
        ) as combo,
        Client(combo.get_address()) as client,
    ):
        future = client.submit(parent, client, str(tmp_path / "pid"), str(tmp_path / "never"))
        wait_until_stopped(tmp_path / "pid")
        with pytest.raises(TimeoutError, match="task_timeout_seconds"):
            future.result(SECONDS)
        assert client.submit(increment, 1).result(SECONDS) == 2


@pytest.mark.more
def test_a_stopped_process_breathes(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "go"
    future = client.submit(parent, client, str(tmp_path / "pid"), str(path))
    process = psutil.Process(wait_until_stopped(tmp_path / "pid"))
    before = process.num_ctx_switches()
    wait_until(lambda: process.num_ctx_switches() != before, "it has run")
    wait_until(lambda: is_stopped(process.pid), "it is stopped again")
    path.write_text("gone")
    assert future.result(SECONDS) == "gone"


@pytest.mark.more
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_nothing_stopped_is_left_behind_when_the_agent_ends(tmp_path: Path, number: signal.Signals) -> None:
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "1", "--hard-processor-suspend") as cluster,
        Client(address) as client,
    ):
        client.submit(parent, client, str(tmp_path / "pid"), str(tmp_path / "never"))
        wait_until_stopped(tmp_path / "pid")
        below = descendants(cluster.pid)
        cluster.signal(number)
        cluster.end()
        wait_until(lambda: not [pid for pid in below if alive(pid)], "all its processes have ended")


@pytest.mark.more
def test_the_next_scheduler_at_the_address_gets_the_parent_that_waited(tmp_path: Path) -> None:
    """Its run there looks the same as the one that the agent stops, and must not be taken for it."""
    path = tmp_path / "go"
    with (
        scheduler() as (address, first),
        command("cluster", address, "-n", "1", "-hps"),
        Client(address) as client,
    ):
        future = client.submit(parent, client, str(tmp_path / "pid"), str(path))
        wait_until_stopped(tmp_path / "pid")
        first.signal(signal.SIGKILL)
        first.end()
        path.write_text("there")
        with scheduler(address):
            assert future.result(SECONDS) == "there"
