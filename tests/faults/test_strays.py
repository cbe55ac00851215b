"""What tasks have started ends with their node, however that ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scaler import Client
from tests.support.processes import alive, command, descendants, fork_server_of, free_address, scheduler, wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has adoption"),
]


def start_both(folder: str) -> None:
    """Start one process in the group of the processor, and one in a session of its own."""
    for name, prefix in (("group", ""), ("session", "setsid ")):
        subprocess.Popen(
            f"{prefix}sh -c 'echo $$ > {folder}/{name}.new; mv {folder}/{name}.new {folder}/{name}; exec sleep 1000'",
            shell=True,
        )
    time.sleep(1000)


def started(folder: Path) -> list[int]:
    """Return the ids of both, when they are there."""
    pids = [int(path.read_text()) for path in folder.iterdir() if path.suffix != ".new"]
    return pids if len(pids) == 2 else []


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with scheduler() as (address, _):
        yield address


def kill_fork_server(agent: int) -> None:
    found = fork_server_of(agent)
    assert found is not None
    found.kill()


def zombies(agent: int) -> list[str]:
    """Return the ended children of an agent that are not reaped."""
    found = []
    for child in psutil.Process(agent).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it is reaped just now
            if child.status() == psutil.STATUS_ZOMBIE:
                found.append(child.name())
    return found


def in_the_foreground() -> None:
    """Start it as a shell does for its user, also if the tests run in the background or under nohup."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("what", ["SIGHUP", "SIGQUIT", "agent", "fork server"])
def test_nothing_outlives_its_node(address: str, tmp_path: Path, what: str) -> None:
    loop = "uvloop" if what == "fork server" else "builtin"
    with (
        command("cluster", address, "-n", "1", "-el", loop, preexec_fn=in_the_foreground) as cluster,
        Client(address) as client,
    ):
        client.submit(start_both, str(tmp_path))
        pids = wait_until(lambda: started(tmp_path), "both have started")
        if what == "fork server":
            kill_fork_server(cluster.pid)
        elif what == "agent":
            cluster.signal(signal.SIGKILL)
        else:  # as the terminal does: all processes of its foreground group
            os.killpg(cluster.pid, signal.Signals[what])
        wait_until(lambda: not [pid for pid in pids if alive(pid)], "both have ended")
        if what == "SIGHUP":
            assert cluster.end() == 0
            assert "SIGHUP: the cluster ends" in cluster.output
        elif what == "fork server":
            wait_until(lambda: not zombies(cluster.pid), "all are reaped")
            assert cluster.process.poll() is None


def test_nohup_keeps_a_cluster_when_the_terminal_is_closed(address: str) -> None:
    with command(
        "cluster", address, "-n", "1", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ) as cluster:
        with Client(address) as client:
            client.submit(pow, 2, 3).result(30)
            os.killpg(cluster.pid, signal.SIGHUP)
            assert client.submit(pow, 2, 3).result(30) == 8
            assert client.submit(lambda: signal.getsignal(signal.SIGHUP)).result(30) == signal.SIG_IGN
        assert cluster.process.poll() is None


@pytest.mark.parametrize("is_kept", [False, True], ids=["as it is", "nohup"])
def test_a_scheduler_ends_in_good_order_when_the_terminal_is_closed(is_kept: bool) -> None:
    handler = signal.SIG_IGN if is_kept else signal.SIG_DFL
    with command("scheduler", free_address(), preexec_fn=lambda: signal.signal(signal.SIGHUP, handler)) as running:
        running.wait_for("monitor")
        running.signal(signal.SIGHUP)
        if is_kept:
            running.signal(signal.SIGTERM)
        assert running.end() == 0
        assert f"scheduler: ends: {'SIGTERM' if is_kept else 'SIGHUP'}" in running.output


@pytest.mark.more
@pytest.mark.skipif(shutil.which("unshare") is None or os.getuid() != 0, reason="needs unshare, and to be root")
def test_process_1_of_a_container_leaves_no_zombies(address: str, tmp_path: Path) -> None:
    """A cluster in a process namespace of its own is process 1 there, to which all orphans come."""
    arguments = [sys.executable, "-m", "scaler.cli.cluster", address, "-n", "2"]
    container = subprocess.Popen(["unshare", "-p", "-f", "--mount-proc", *arguments], stdout=subprocess.DEVNULL)
    try:
        with Client(address) as client:
            for _ in range(20):
                client.submit(os.system, "true &").result(30)
            for _ in range(10):
                future = client.submit(start_both, str(tmp_path))
                wait_until(lambda: started(tmp_path), "both have started")
                future.cancel()
                for path in tmp_path.iterdir():
                    path.unlink()
            client.submit(pow, 2, 3).result(30)

            def extra() -> list[str]:
                try:
                    below = [psutil.Process(pid) for pid in descendants(container.pid)]
                    all_below = psutil.Process(container.pid).children(recursive=True)
                    return [each.name() for each in all_below if each.status() == psutil.STATUS_ZOMBIE] + [
                        each.name() for each in below if each.name() in {"sh", "sleep"}
                    ]
                except psutil.NoSuchProcess as gone:
                    return [f"process {gone.pid} ends now"]

            wait_until(lambda: not extra(), "no zombie and no stray is there")
            [agent] = psutil.Process(container.pid).children()
            kill_fork_server(agent.pid)
            client.submit(pow, 2, 3).result(30)
            wait_until(lambda: not extra(), "no zombie and no stray is there")
    finally:
        for each in psutil.Process(container.pid).children():  # process 1: the kernel ends all others with it
            each.kill()
        container.wait(60)
