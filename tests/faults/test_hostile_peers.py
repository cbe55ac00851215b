"""Hostile peers with keys: whatever they say, nobody else notices, and memory stays bounded; real processes."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from scaler import Client
from tests.integration.test_keys import Site
from tests.support.processes import REPOSITORY, Command, command, free_address
from tests.support.viewer import Viewer

pytestmark = pytest.mark.faults

BYTES_MOST = 250 * 1024 * 1024
PATIENCE_SECONDS = 120.0
FEW = 6_000
MANY = 200_000
AT_ONCE = 10_000
"""items that one hostile program sends"""
SOAK = pytest.param(MANY, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])
HONEST = {"honest": 1}
"""what the tasks of honest clients need, so that no hostile agent gets them"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path / "home"))
    monkeypatch.setenv("SCALER_KEEP", str(tmp_path / "jobs"))
    site = Site(tmp_path)
    yield site
    site.end()


def bytes_of(pid: int) -> int:
    return psutil.Process(pid).memory_info().rss


def complaints(running: Command) -> list[str]:
    """Return what a command has logged of shared actors that failed, or of what went wrong in other ways."""
    bad = re.compile(r"restarting |failed again|^\[(ERROR|CRITICAL)\]")
    lines = list(running.lines)
    found = [n for n, line in enumerate(lines) if bad.search(line) and "is ended: 5 times in a row" not in line]
    return ["\n".join(lines[n : n + 60]) for n in found]


def answered(address: str, key: str) -> float:
    """Return after how many seconds an honest client has the results of its tasks."""
    began = time.monotonic()
    with Client(address, key_file=key) as client:
        assert client.options(capabilities=HONEST).submit(pow, 2, 10).result(PATIENCE_SECONDS) == 1024
    return time.monotonic() - began


def ended_well(running: Command) -> None:
    """End the scheduler, and look at what it has logged."""
    running.signal(signal.SIGTERM)
    assert running.end() == 0
    assert not complaints(running), "\n".join(complaints(running)[:5])
    ended = running.wait_for("scheduler: ended")
    print(ended)
    assert ", 0 of its actors' handlers failed;" in ended


def test_viewers_that_leave_are_no_error(site: Site) -> None:
    for _ in range(3):
        viewer = Viewer(site.monitor, "")
        viewer.until(lambda _message: True, "a message")
        viewer.close()
    ended_well(site.scheduler)


def be_hostile(site: Site, inputs: int, seed: int, keys: Sequence[str]) -> int:
    """Return how many items were sent. The program may end before, in libzmq."""
    program = [sys.executable, "-m", "tests.support.hostile", site.address, str(inputs), str(seed), *keys]
    done = subprocess.run(program, check=False, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode in (0, -signal.SIGABRT, -signal.SIGSEGV), done.stderr
    return int((done.stdout.split() or ["0"])[-1])


@pytest.mark.more
@pytest.mark.parametrize("inputs", [FEW, SOAK])
@pytest.mark.parametrize("role", ["client", "admin", "agent", "all"])
def test_hostile_peers_stop_nothing_and_take_no_memory(site: Site, role: str, inputs: int) -> None:
    honest = site.allow("alice")
    site.cluster("--capabilities", "honest=1000000")
    worker = site.folder / "worker.json"
    keys = {
        "client": [f"client={site.allow('eve')}"] * 3,
        "admin": [f"admin={site.folder / 'admin.json'}"] * 2,
        "agent": [f"agent={worker}"] * 3 + [f"nested={worker}"] * 2,
    }
    keys["all"] = [each for some in keys.values() for each in some]
    chance = random.Random(f"{role} {inputs}")
    before, said, slowest = bytes_of(site.scheduler.pid), 0, answered(site.address, honest)
    with Viewer(site.monitor, ""):
        while said < inputs:
            said += be_hostile(site, min(AT_ONCE, inputs - said), chance.randrange(2**32), keys[role])
            slowest = max(slowest, answered(site.address, honest))
            assert site.scheduler.process.poll() is None, site.scheduler.output[-3000:]
            assert bytes_of(site.scheduler.pid) < BYTES_MOST
    print(f"{role}: {said:,} items, {before >> 20} -> {bytes_of(site.scheduler.pid) >> 20} MiB, {slowest:.1f} s")
    ended_well(site.scheduler)


CLIENT = """
import sys, threading, time
from concurrent.futures import wait
from scaler import Client

over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
client, rounds = None, 0
while not over.is_set():
    try:
        client = client or Client(sys.argv[1])
        wait([client.submit(pow, 2, n) for n in range(20)], 0.2)
        client.send_object(b"x" * 100_000)
        client.map(pow, [(2, n) for n in range(100)], timeout=0.2)
    except Exception as error:
        if client is not None and "disconnected" in str(error):
            client = None
    rounds += 1
print("rounds", rounds, flush=True)
"""


@pytest.mark.more
@pytest.mark.parametrize("inputs", [FEW, SOAK])
def test_peers_of_a_hostile_scheduler_use_bounded_memory_and_can_end(inputs: int) -> None:
    address = free_address()
    hostile = [sys.executable, "-m", "tests.support.hostile", address, str(inputs), "1"]
    honest = [sys.executable, "-c", CLIENT, address]
    text = {"text": True, "cwd": REPOSITORY, "stdout": subprocess.PIPE}
    with ExitStack() as stack:
        scheduler = stack.enter_context(subprocess.Popen(hostile, **text))
        stack.callback(scheduler.kill)
        cluster = stack.enter_context(command("cluster", address, "-n", "1"))
        client = stack.enter_context(subprocess.Popen(honest, stdin=subprocess.PIPE, **text))
        stack.callback(client.kill)
        assert scheduler.stdout is not None
        said, most = 0, [0, 0]
        while said < inputs:
            said = int(scheduler.stdout.readline())
            if said % 100 < 20:
                most = [max(known, bytes_of(pid)) for known, pid in zip(most, (client.pid, cluster.pid), strict=True)]
                assert max(most) < BYTES_MOST, most
        print(f"scheduler: {said:,} items; most MiB of client and agent: {[each >> 20 for each in most]}")
        rounds, _ = client.communicate("", PATIENCE_SECONDS)
        print(rounds)
        assert client.returncode == 0
        cluster.signal(signal.SIGTERM)
        cluster.end()
        assert not complaints(cluster), "\n".join(complaints(cluster)[:5])
