"""Several hosts: a scheduler and three clusters, one of them in front of an engine, and clients on a fourth host.

Each host is a network namespace with an address of its own. All have the same files: by these the tasks say what they
do, and wait for the test.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.storms.network import SCHEDULER, Namespaces
from tests.support.processes import REPOSITORY, Command, wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.more,
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are a part of Linux"),
]

ONE, TWO, ENGINE, CLIENTS = "one", "two", "engine", "clients"
ADDRESS_OF = {ONE: "10.77.0.2", TWO: "10.77.0.3", ENGINE: "10.77.0.4"}
WORKERS = 2
TASKS = WORKERS * len(ADDRESS_OF)

PROGRAM = """
import json, os, socket, sys, time
from concurrent.futures import as_completed
from scaler import Client

def here():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("10.77.0.1", 9))
        return probe.getsockname()[0]

def work(folder, part, number):
    def note(name):
        with open(os.path.join(folder, f"{name}-{part}"), "a") as log:
            log.write(f"{number} {here()}\\n")
    note("begun")
    while not os.path.exists(os.path.join(folder, f"gate-{part}")):
        time.sleep(0.01)
    note("ended")
    return number, here()

def double(number):
    with Client() as client:
        return sum(client.map(abs, [(number,), (-number,)]))

def say(*words):
    print(json.dumps(words), flush=True)

address, folder, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Client(address, timeout_seconds=120) as client:
    client.wait_for_workers(tasks, timeout=60)
    for future in as_completed([client.submit(work, folder, "first", number) for number in range(tasks)]):
        say("result", *future.result())
    client.wait_for_workers(tasks, timeout=60)
    say("again", *client.map(work, [(folder, "second", number) for number in range(tasks)]))
    shared = client.send_object(bytes(3_000_000))
    say("large", *client.map(len, [(shared,)] * tasks), len(client.submit(bytes, 3_000_000).result()))
    say("nested", *client.map(double, [(number,) for number in range(tasks)]))
"""


class Hosts:
    """The hosts, and what runs there."""

    def __init__(self, network: Namespaces, folder: Path) -> None:
        self.network = network
        self._folder = folder
        self._commands: dict[str, Command] = {}
        self._client: subprocess.Popen[bytes] | None = None
        for host in (*ADDRESS_OF, CLIENTS):
            network.add(host)

    def start(self, *scheduler_options: str) -> None:
        """Start the scheduler, three clusters, and a client."""
        address = self.network.listens
        self._run(SCHEDULER, "scheduler", address, *scheduler_options).wait_for("address tcp")
        own = (address, "-n", str(WORKERS), "-hi", "1")
        self._run(ONE, "cluster", *own)
        self._run(TWO, "cluster", *own)
        self._run(ENGINE, "cluster", *own, "--engine", "tests.support.engines:processes")
        with self._words.open("wb") as words:
            self._client = subprocess.Popen(
                [*self.network.prefix(CLIENTS), sys.executable, "-c", PROGRAM, address, str(self._folder), str(TASKS)],
                stdout=words,
                cwd=REPOSITORY,
                start_new_session=True,
            )

    def _run(self, host: str, module: str, *arguments: str) -> Command:
        command = self._commands[host] = Command(module, *arguments, prefix=self.network.prefix(host))
        return command

    def cut(self, host: str) -> None:
        """Nothing passes from a host or to it any more, and nothing is refused."""
        self.network.drop(host, up=True, down=True)

    def heal(self, host: str) -> None:
        self.network.heal(host)

    def open_gate(self, part: str) -> None:
        (self._folder / f"gate-{part}").touch()

    def noted(self, name: str) -> list[list[str]]:
        """Return number and host of each task that has said so, in its order."""
        path = self._folder / name
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def scheduler(self) -> Command:
        return self._commands[SCHEDULER]

    @property
    def _words(self) -> Path:
        return self._folder / "words"

    def said(self, kind: str) -> list[list[Any]]:
        """Return what the client has said of a kind."""
        words = map(json.loads, self._words.read_text().splitlines())
        return [rest for first, *rest in words if first == kind]

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        """Wait; whoever ends meanwhile has failed."""

        def is_so() -> bool:
            if condition():
                return True
            for command in self._commands.values():
                assert command.process.poll() is None, command.output
            assert self._client is None or not self._client.poll()
            return False

        wait_until(is_so, what, 60)

    def client_ends(self) -> int:
        assert self._client is not None
        return self._client.wait(60)

    def close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._client.pid, signal.SIGKILL)
            self._client.wait()
        for command in self._commands.values():
            command.kill_all()


@contextlib.contextmanager
def some_hosts(folder: Path) -> Iterator[Hosts]:
    if not Namespaces.can_be_made():
        pytest.skip("network namespaces cannot be made here: it needs root, CAP_NET_ADMIN, iproute2 and nftables")
    network = Namespaces()
    try:
        hosts = Hosts(network, folder)
        try:
            yield hosts
        finally:
            hosts.close()
    finally:
        network.close()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with some_hosts(tmp_path) as hosts:
        yield hosts


def each_host_has_work(hosts: Hosts) -> bool:
    return Counter(host for _, host in hosts.noted("begun-first")) == dict.fromkeys(ADDRESS_OF.values(), WORKERS)


def check_second_round(hosts: Hosts) -> None:
    """All hosts take tasks, and large values and nested tasks get through."""
    hosts.wait(lambda: len(hosts.noted("begun-second")) == TASKS, "each worker has a task again")
    hosts.open_gate("second")
    assert hosts.client_ends() == 0
    [again] = hosts.said("again")
    assert Counter(host for _, host in again) == dict.fromkeys(ADDRESS_OF.values(), WORKERS)
    assert hosts.said("large") == [[3_000_000] * (TASKS + 1)]
    assert hosts.said("nested") == [[2 * number for number in range(TASKS)]]


def test_a_host_that_is_cut_off_and_back_in_time_has_done_its_tasks_once(hosts: Hosts) -> None:
    hosts.start("-wt", "60")
    hosts.wait(lambda: each_host_has_work(hosts), "each worker has a task")
    hosts.cut(ENGINE)
    hosts.open_gate("first")
    hosts.wait(lambda: len(hosts.noted("ended-first")) == TASKS, "all have ended, also on the host that is cut off")
    hosts.wait(lambda: len(hosts.said("result")) == TASKS - WORKERS, "the client has the results of the others")
    hosts.heal(ENGINE)
    hosts.wait(lambda: len(hosts.said("result")) == TASKS, "the rest has come")
    assert sorted(number for number, _ in hosts.said("result")) == list(range(TASKS))
    assert len(hosts.noted("begun-first")) == TASKS
    check_second_round(hosts)


@pytest.mark.parametrize("lost", [ONE, ENGINE])
def test_the_tasks_of_a_host_that_stays_away_run_on_others_and_it_works_again_when_it_is_back(
    hosts: Hosts, lost: str
) -> None:
    hosts.start("-wt", "3")
    hosts.wait(lambda: each_host_has_work(hosts), "each worker has a task")
    hosts.cut(lost)
    hosts.scheduler.wait_for(" is lost: it was silent")
    hosts.open_gate("first")
    hosts.wait(lambda: len(hosts.said("result")) == TASKS, "all results are there")
    assert len(hosts.noted("begun-first")) == TASKS + WORKERS
    results = hosts.said("result")
    assert sorted(number for number, _ in results) == list(range(TASKS))
    assert ADDRESS_OF[lost] not in {host for _, host in results}
    hosts.heal(lost)
    check_second_round(hosts)


def test_nothing_is_left_behind_after_a_failure(tmp_path: Path) -> None:
    started: list[Hosts] = []

    def fail_there() -> None:
        with some_hosts(tmp_path) as hosts:
            started.append(hosts)
            hosts.start()
            assert len(hosts.network.spaces()) == len(ADDRESS_OF) + 3  # scheduler, clients, and the switch
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_there()
    [hosts] = started
    assert hosts.network.spaces() == []
    assert not Path(f"/proc/{hosts.scheduler.pid}").exists()
