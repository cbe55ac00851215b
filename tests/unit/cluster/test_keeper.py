"""Keeper: a dead process of a local cluster is restarted, and futures fail when it is given up."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from scaler import Client, Cluster, DisconnectedError, Scheduler, SchedulerClusterCombo, WorkerDiedError
from scaler.cluster.keeper import RESTARTS
from scaler.wire.codec.schemas import SCHEMAS
from tests.support.processes import alive, children, descendants, open_descriptors, wait_until

pytestmark = pytest.mark.processes


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def kill_until_it_is_given_up(child: Scheduler | Cluster) -> int | None:
    """Kill the process and its replacements until none is started. Return the id of the last one."""
    killed = None
    for _ in range(RESTARTS + 1):
        wait_until(lambda last=killed: child.pid != last, "another process is there")
        killed = child.pid
        kill(killed)
    return killed


def test_the_agent_of_a_local_cluster_is_restarted(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # what earlier tests have left
    SCHEMAS["client"]  # its files stay open once a client has used them
    before, descriptors = children(), open_descriptors()
    with Client() as client:
        cluster = client._finalizer.peek()[2][1]._cluster
        assert client.submit(pow, 2, 3).result(30) == 8
        first = cluster.pid
        future = client.submit(time.sleep, 0.3)
        kill(first)
        assert future.result(30) is None
        assert cluster.pid != first
        assert cluster.is_alive()
    assert "died (signal SIGKILL): it is restarted" in caplog.text
    assert children() <= before
    wait_until(lambda: open_descriptors() <= descriptors, "no descriptor is left")
    assert not cluster.is_alive()


def test_the_scheduler_of_a_local_cluster_is_restarted_at_its_address(caplog: pytest.LogCaptureFixture) -> None:
    with Client(n_workers=1) as client:
        scheduler = client._finalizer.peek()[2][1]._scheduler
        address, first = scheduler.get_address(), scheduler.pid
        place = Path(address.removeprefix("ipc://"))
        future = client.submit(time.sleep, 0.3)
        kill(first)
        assert future.result(60) is None
        assert client.submit(pow, 2, 3).result(60) == 8
        assert (scheduler.get_address(), scheduler.is_alive()) == (address, True)
        assert scheduler.pid != first
    assert "the scheduler of the local cluster" in caplog.text
    assert not scheduler.is_alive()
    assert not place.parent.exists()


@pytest.mark.parametrize("is_combo", [True, False], ids=["combo", "scheduler and cluster"])
def test_every_open_future_fails_when_the_agent_dies_repeatedly(
    is_combo: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    if is_combo:
        combo = SchedulerClusterCombo(1, logging_level="CRITICAL")
        scheduler, cluster = combo._scheduler, combo._cluster
    else:
        scheduler = Scheduler(logging_level="CRITICAL")
        scheduler.start()
        cluster = Cluster(scheduler.get_address(), 1, logging_level="CRITICAL")
        cluster.start()
    try:
        with Client(scheduler.get_address()) as client:
            futures = [client.submit(time.sleep, 1000) for _ in range(3)]
            killed = kill_until_it_is_given_up(cluster)
            for future in futures:
                with pytest.raises(WorkerDiedError, match=r"died 4 times in 60 s, the last time with signal SIGKILL"):
                    future.result(10)
            with pytest.raises(DisconnectedError, match="local cluster"):
                client.submit(pow, 2, 2)
        assert "is lost" in caplog.text
        cluster.join(10)
        assert (cluster.pid, cluster.exitcode) == (killed, -signal.SIGKILL)
        assert scheduler.is_alive()
    finally:
        for each in (cluster, scheduler, cluster, scheduler):
            each.shutdown()


@pytest.mark.more
def test_every_open_future_fails_when_the_scheduler_dies_repeatedly(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    gc.collect()  # what earlier tests have left
    before = children()
    with Client(n_workers=1) as client:
        combo = client._finalizer.peek()[2][1]
        scheduler, place = combo._scheduler, Path(combo.get_address().removeprefix("ipc://"))
        futures = [client.submit(time.sleep, 1000), client.submit(pow, 2, 3)]
        killed = kill_until_it_is_given_up(scheduler)
        for future in futures:
            with pytest.raises(
                WorkerDiedError, match=r"its scheduler has died 4 times in 60 s, the last time with sig"
            ):
                future.result(30)
        with pytest.raises(DisconnectedError, match="local cluster"):
            client.submit(pow, 2, 2)
        scheduler.join(10)
        assert (scheduler.pid, scheduler.exitcode) == (killed, -signal.SIGKILL)
    assert "is lost: its scheduler has died" in caplog.text
    assert children() <= before
    assert not place.parent.exists()


PROGRAM = """
import os, signal
from scaler import Client

client = Client(n_workers=1)
scheduler = client._finalizer.peek()[2][1]._scheduler
assert client.submit(pow, 2, 3).result(60) == 8
os.kill(scheduler.pid, signal.SIGKILL)
assert client.submit(pow, 2, 3).result(60) == 8
print(scheduler.get_address(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.more
def test_a_restarted_scheduler_leaves_no_folder_when_its_program_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=120)
    address = done.stdout.strip()
    assert (done.returncode, address[:6]) == (-signal.SIGKILL, "ipc://"), done.stderr
    wait_until(lambda: not Path(address.removeprefix("ipc://")).parent.exists(), "the folder is gone")


KILLED_WITH_ITS_SCHEDULER = """
import os, signal
from scaler import Client

client = Client(n_workers=1)
scheduler = client._finalizer.peek()[2][1]._scheduler
assert client.submit(pow, 2, 3).result(60) == 8
os.kill(scheduler.pid, signal.SIGSTOP)  # it would clean up
print(scheduler.get_address(), scheduler.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

NEXT_OF_ITS_USER = """
from scaler import Client

with Client(n_workers=1) as client:
    assert client.submit(pow, 2, 3).result(60) == 8
"""


@pytest.mark.more
def test_a_local_cluster_removes_the_folder_of_a_program_killed_with_its_scheduler() -> None:
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "said")

        def run(program: str) -> int:
            """Return the exit code of a program. Its output is written to a file: its scheduler would keep a pipe
            open.
            """
            with said.open("w") as file:
                words, environment = [sys.executable, "-c", program], os.environ | {"TMPDIR": folder}
                return subprocess.run(words, check=False, stdout=file, timeout=120, env=environment).returncode

        assert run(KILLED_WITH_ITS_SCHEDULER) == -signal.SIGKILL
        address, pid = said.read_text().split()
        place = Path(address.removeprefix("ipc://"))
        os.kill(int(pid), signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(int(pid)), "it has ended")
        assert place.parent.parent == Path(folder)
        assert place.parent.exists()
        assert run(NEXT_OF_ITS_USER) == 0
        assert list(Path(folder).glob("scaler-*")) == []


def test_a_cluster_that_was_terminated_is_not_restarted() -> None:
    with SchedulerClusterCombo(1, logging_level="CRITICAL") as combo:
        with Client(combo.get_address()) as client:
            client.submit(pow, 2, 3).result(30)
        pid = combo._cluster.pid
        combo._cluster.terminate()
        combo._cluster.join(10)
        assert (combo._cluster.pid, combo._cluster.exitcode) == (pid, 0)


def test_a_garbage_collected_cluster_ends_and_is_not_restarted() -> None:
    scheduler = Scheduler(logging_level="CRITICAL")
    scheduler.start()
    try:
        cluster = Cluster(scheduler.get_address(), 1, logging_level="CRITICAL")
        cluster.start()
        pid = cluster.pid
        assert pid is not None
        below = [pid, *descendants(pid)]
        del cluster
        wait_until(lambda: not [each for each in below if alive(each)], "all have ended")
    finally:
        scheduler.shutdown()
