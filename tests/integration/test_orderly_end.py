"""The end of a cluster in good order: `atexit` and `finally` run, and nothing is left on the machine."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import alive, command, descendants, scheduler, wait_until

pytestmark = pytest.mark.processes


def use_everything(folder: str) -> list[str]:
    """Leave all that a library may leave for the end of the process; return the names of files."""
    atexit.register(Path(folder, "atexit").touch)
    threading.Thread(target=lambda: (time.sleep(0.05), Path(folder, "thread").touch())).start()
    sys.kept = tempfile.TemporaryDirectory()  # type: ignore[attr-defined]
    segment = shared_memory.SharedMemory(create=True, size=1000)
    lock = multiprocessing.get_context("spawn").Lock()
    sys.kept_too = segment, lock  # type: ignore[attr-defined]
    print("unfinished", end="")
    return [sys.kept.name, f"/dev/shm/{segment.name.lstrip('/')}", f"/dev/shm/sem.{lock._semlock.name.lstrip('/')}"]


def rest(folder: str) -> None:
    try:
        Path(folder, "began").touch()
        time.sleep(60)
    finally:
        Path(folder, "finally").touch()


def end_late(folder: str) -> None:
    """Take half of the time that processes have when all ends in good order."""
    atexit.register(lambda: (time.sleep(0.5), Path(folder, "late").touch()))


def never_end(folder: str) -> None:
    Path(folder, "endless").touch()
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


def test_idle_processes_leave_nothing_behind(tmp_path: Path) -> None:
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        files = client.submit(use_everything, str(tmp_path)).result(30)
        assert all(Path(file).exists() for file in files[:2])
        began = time.monotonic()
    assert time.monotonic() - began < 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["atexit", "thread"]
    assert [file for file in files if Path(file).exists()] == []


def test_running_tasks_are_interrupted(tmp_path: Path) -> None:
    others = set(descendants())  # of tests before this one
    with SchedulerClusterCombo(2, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        client.submit(rest, str(tmp_path))
        client.submit(never_end, str(tmp_path))
        for _ in range(20):
            client.submit(Path.touch, tmp_path / "started")
        wait_until(lambda: {"began", "endless"} <= {path.name for path in tmp_path.iterdir()}, "both run")
        processes = set(descendants()) - others
        combo.shutdown()
    names = {path.name for path in tmp_path.iterdir()}
    assert "finally" in names
    assert "started" not in names
    assert processes & set(descendants()) == set()


def note_the_end(folder: str) -> None:
    try:
        Path(folder, "began").touch()
        time.sleep(60)
    except BaseException as error:
        Path(folder, type(error).__name__).touch()
        raise


def test_interrupt_in_the_terminal_is_for_the_agent(tmp_path: Path) -> None:
    """Ctrl-C goes to all processes of the terminal's group. Tasks end with their cluster, by no KeyboardInterrupt."""
    terminal, stream = os.openpty()
    with scheduler() as (address, _), Client(address) as client:
        cluster = subprocess.Popen(
            [sys.executable, "-m", "scaler.cli.cluster", address, "-n", "1"],
            stdin=stream,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it takes no lock
        )
        client.submit(note_the_end, str(tmp_path))
        wait_until((tmp_path / "began").exists, "the task runs")
        os.write(terminal, b"\x03")
        assert cluster.wait(60) == 0
    os.close(terminal)
    os.close(stream)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["TaskInterrupt", "began"]


def test_end_after_the_agent_was_killed_is_at_once(tmp_path: Path) -> None:
    with scheduler() as (address, _), command("cluster", address, "-n", "1") as cluster, Client(address) as client:
        client.submit(end_late, str(tmp_path)).result(30)
        processes = descendants(cluster.pid)
        os.kill(cluster.pid, signal.SIGKILL)
        wait_until(lambda: not [pid for pid in processes if alive(pid)], "all have ended")
        assert list(tmp_path.iterdir()) == []
