"""Tasks that end before they are done: cancelled, or timed out. Real processes, and what is left of them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.errors import RemoteTraceback
from tests.support.processes import alive, command, scheduler, wait_until


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo:
        yield combo.get_address()


def work_and_clean_up(folder: str) -> None:
    """Leave the files `started` and `cleaned`, with the process id in them."""
    try:
        note(folder, "started")
        time.sleep(60)
    finally:
        note(folder, "cleaned")


def resist(folder: str) -> None:
    while True:
        with contextlib.suppress(BaseException):
            note(folder, "started")  # only now: until here it can be interrupted
            time.sleep(60)


def return_all_the_same(folder: str) -> str:
    try:
        note(folder, "started")
        time.sleep(60)
    except BaseException:  # noqa: BLE001 - as users do
        note(folder, "cleaned")
    return "a result"


def compute_in_c(folder: str) -> int:
    note(folder, "started")
    return sum(range(10**12))


def wait_in_threads(folder: str) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waits = pool.map(time.sleep, [60, 60])
        note(folder, "started")  # only now: the pool would not wait for a thread that it had not written down yet
        list(waits)


def note(folder: str, name: str) -> None:
    path = Path(folder, name)
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").replace(path)


def started(folder: Path) -> int:
    """Wait until the task runs. Returns its process."""
    wait_until((folder / "started").exists, "the task runs")
    return int((folder / "started").read_text())


def test_a_cancelled_task_cleans_up_and_its_process_continues(client: Client, tmp_path: Path) -> None:
    future = client.submit(work_and_clean_up, str(tmp_path))
    pid = started(tmp_path)
    assert future.cancel()
    assert future.cancelled()  # at once
    assert client.submit(os.getpid).result(30) == pid  # else it was killed after the grace
    assert int((tmp_path / "cleaned").read_text()) == pid


@pytest.mark.parametrize("function", [resist, compute_in_c, wait_in_threads])
def test_a_task_that_does_not_let_itself_be_interrupted_is_killed(
    client: Client, tmp_path: Path, function: Any
) -> None:
    future = client.submit(function, str(tmp_path))
    pid = started(tmp_path)
    future.cancel()
    assert client.submit(os.getpid).result(30) != pid
    wait_until(lambda: not alive(pid), "its process is gone")


def test_the_result_of_a_task_that_returns_in_spite_of_its_cancel_is_dropped(client: Client, tmp_path: Path) -> None:
    future = client.submit(return_all_the_same, str(tmp_path))
    pid = started(tmp_path)
    future.cancel()
    assert client.submit(os.getpid).result(30) == pid
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(1)


def test_tasks_behind_a_cancelled_one_lose_nothing(client: Client, tmp_path: Path) -> None:
    """Also if the process is killed: they are not even counted as tried."""
    client.map(abs, [(1,)] * 1000)  # now its tasks are known as short and many of them are handed out together
    for function in (work_and_clean_up, resist):
        folder = tmp_path / function.__name__
        folder.mkdir()
        long = client.submit(function, str(folder))
        behind = [client.submit(abs, -number) for number in range(500)]
        started(folder)
        long.cancel()
        assert [future.result(30) for future in behind] == list(range(500))


def test_cancel_of_tasks_that_wait_behind_a_long_one_is_quick_and_they_never_run(
    client: Client, tmp_path: Path
) -> None:
    long = client.submit(work_and_clean_up, str(tmp_path))
    pid = started(tmp_path)
    behind = [client.submit(Path(tmp_path, str(number)).touch) for number in range(20)]
    for future in behind[::2]:
        assert future.cancel()
    long.cancel()
    for future in behind[1::2]:
        assert future.result(30) is None
    assert client.submit(os.getpid).result(30) == pid
    assert sorted(int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()) == list(range(1, 20, 2))


def test_waiting_for_several_futures_ends_with_their_cancel(client: Client, tmp_path: Path) -> None:
    running = client.submit(work_and_clean_up, str(tmp_path))
    waiting = client.submit(time.sleep, 60)
    started(tmp_path)
    timer = threading.Timer(0.2, lambda: (running.cancel(), waiting.cancel()))
    timer.start()
    done, not_done = concurrent.futures.wait([running, waiting], timeout=50)
    assert (done, not_done) == ({running, waiting}, set())
    timer.join()
    assert set(concurrent.futures.as_completed([running, waiting], timeout=50)) == {running, waiting}


def test_as_completed_is_woken_by_a_cancel(client: Client, tmp_path: Path) -> None:
    running = client.submit(work_and_clean_up, str(tmp_path))
    started(tmp_path)
    timer = threading.Timer(0.2, running.cancel)
    timer.start()
    assert list(concurrent.futures.as_completed([running], timeout=50)) == [running]
    timer.join()


def test_result_and_exception_give_up_in_time(client: Client, tmp_path: Path) -> None:
    future = client.submit(work_and_clean_up, str(tmp_path))
    for ask in (future.result, future.exception):
        began = time.monotonic()
        with pytest.raises(concurrent.futures.TimeoutError):
            ask(timeout=0.1)
        assert time.monotonic() - began < 30, "the task takes 60 s"
    assert future.running()
    future.cancel()
    for ask in (future.result, future.exception):
        with pytest.raises(concurrent.futures.CancelledError):
            ask(timeout=0.1)
    assert not future.running()


def test_a_storm_of_cancels_leaves_nothing_behind(client: Client) -> None:
    for _ in range(3):
        futures = [client.submit(time.sleep, 60) for _ in range(2000)]
        assert all(future.cancel() for future in futures)
    began = time.monotonic()
    assert client.map(abs, [(-number,) for number in range(1000)]) == list(range(1000))
    assert time.monotonic() - began < 50


def test_a_task_that_runs_for_too_long_ends_with_a_timeout_error(tmp_path: Path) -> None:
    with (
        scheduler() as (address, _),
        command("cluster", address, "-wn", "left", "-tts", "2") as cluster,
        Client(address) as client,
    ):
        began = time.monotonic()
        future = client.submit(work_and_clean_up, str(tmp_path))
        error = future.exception(30)
        assert 2 <= time.monotonic() - began < 30
        assert type(error) is TimeoutError
        assert str(error).startswith("task work_and_clean_up: it ran for ")
        assert "worker left" in str(error)
        assert "2 s (task_timeout_seconds)" in str(error)
        assert isinstance(error.__cause__, RemoteTraceback)
        assert "in work_and_clean_up" in error.__cause__.text
        assert client.submit(os.getpid).result(30) == int((tmp_path / "cleaned").read_text())
        # Of many short ones nobody is hit, however long they take together.
        assert client.map(time.sleep, [(0.05,)] * 45) == [None] * 45
        assert "died" not in cluster.output


@pytest.mark.more
def test_a_task_over_its_time_limit_is_not_retried_and_frees_its_worker(tmp_path: Path) -> None:
    with (
        SchedulerClusterCombo(1, task_timeout_seconds=0.3, logging_level="ERROR") as combo,
        Client(combo.get_address()) as client,
    ):
        futures = [client.submit(function, str(tmp_path)) for function in (compute_in_c, resist)]
        after = client.submit(abs, -1)
        assert [type(future.exception(30)) for future in futures] == [TimeoutError] * 2
        assert after.result(30) == 1
        with pytest.raises(TimeoutError, match=r"0\.3 s"):
            client.map(time.sleep, [(0.01,), (60,), (0.01,)])


def wait_for_child(client: Client, path: str) -> None:
    client.submit(Path(path).touch).result()
    client.submit(time.sleep, 60).result()


@pytest.mark.more
def test_a_task_over_its_time_limit_while_it_waits_ends_with_its_nested_tasks(tmp_path: Path) -> None:
    with (
        SchedulerClusterCombo(1, task_timeout_seconds=6, logging_level="ERROR") as combo,
        Client(combo.get_address()) as client,
    ):
        began = time.monotonic()
        error = client.submit(wait_for_child, client, str(tmp_path / "first")).exception(30)
        assert type(error) is TimeoutError
        assert str(error).startswith("task wait_for_child: it ran for ")
        assert (tmp_path / "first").exists()
        assert client.submit(abs, -1).result(30) == 1
        assert time.monotonic() - began < 50


INTERRUPTED = """
import sys, time
from scaler import Client
client = Client(sys.argv[1])
print("go", flush=True)
client.submit(time.sleep, 1000).result()
"""


def test_ctrl_c_of_a_program_leaves_no_task_running_in_a_remote_cluster(client: Client) -> None:
    def running() -> int:
        return sum(worker.tasks for worker in client.workers())

    command = [sys.executable, "-c", INTERRUPTED, client._core.link.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        wait_until(lambda: running() == 1, "its task runs")
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    wait_until(lambda: running() == 0, "its task has ended")
