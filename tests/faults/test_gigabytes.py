"""Values on several hosts: what travels between them, and more of them than their memory has room for.

Each host is a network namespace and a namespace of processes: none can open the memory of another.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from scaler.process.meters import peak_bytes
from tests.faults.storms.network import SCHEDULER, Namespaces
from tests.support.processes import REPOSITORY, Command, alive, descendants, wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.more,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are a part of Linux"),
]

CLIENTS = "clients"
OWN_PROCESSES = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
MOUNTED = ("sh", "-c", 'mount -o loop "$1" "$2" && shift 2 && exec "$@"', "sh")


class Hosts:
    """A scheduler, clusters, and clients, each on a host of its own."""

    def __init__(self, network: Namespaces, folder: Path, *names: str) -> None:
        self.network, self._folder = network, folder
        self._commands: dict[str, Command] = {}
        for host in (*names, CLIENTS):
            network.add(host)
        self.start_scheduler()

    def start_scheduler(self) -> None:
        self.scheduler = self._run(
            SCHEDULER, "scheduler", self.network.listens, "-ct", "10", prefix=self.network.prefix(SCHEDULER)
        )
        self.scheduler.wait_for("address tcp")

    def start(self, host: str, *options: str, disk: Path | None = None) -> Command:
        """Start a cluster; with its values on an image of a disk, or in the folder of the host."""
        folder = self.disk(host)
        folder.mkdir(exist_ok=True)
        runtime = self._folder / f"run-{host}"
        runtime.mkdir(mode=0o700, exist_ok=True)
        prefix = [*self.network.prefix(host), *OWN_PROCESSES]
        if disk is not None:
            prefix += [*MOUNTED, str(disk), str(folder)]
        arguments = (self.network.listens, "-n", "1", "-wn", host, "--spill-folder", str(folder), *options)
        return self._run(host, "cluster", *arguments, prefix=prefix, env={"XDG_RUNTIME_DIR": str(runtime)})

    def _run(
        self, host: str, module: str, *arguments: str, prefix: Sequence[str], env: dict[str, str] | None = None
    ) -> Command:
        command = self._commands[host] = Command(module, *arguments, prefix=prefix, env=env)
        return command

    def kill(self, host: str) -> None:
        """All processes of the host end at once."""
        command = self._commands.pop(host)
        below = descendants(command.pid)
        command.kill_all()
        wait_until(lambda: not any(map(alive, below)), f"{host} has ended")

    def terminate(self, host: str) -> None:
        """The cluster of a host ends in good order."""
        running = self._commands[host]
        inner = psutil.Process(running.pid)
        while inner.name() in ("unshare", "ip", "sh"):
            inner = wait_until(inner.children, "the command has begun")[0]
        inner.send_signal(signal.SIGTERM)
        assert running.end() == 0, running.output

    def disk(self, host: str) -> Path:
        return self._folder / f"disk-{host}"

    def files(self, host: str) -> list[Path]:
        """Return the values that the cluster of a host has on its disk, as that host sees it."""
        inside = psutil.Process(self._commands[host].pid).children(recursive=True)
        root = Path(f"/proc/{inside[0].pid}/root{self.disk(host)}") if inside else self.disk(host)
        return [file for file in root.glob("scaler-values-*/*") if file.name != "lock"]

    def sent(self, host: str) -> int:
        """Return the bytes that have left a host."""
        counter = "/sys/class/net/cable/statistics/tx_bytes"
        return int(subprocess.check_output([*self.network.prefix(host), "cat", counter]))

    def received(self, host: str) -> int:
        """Return the bytes that have come to a host."""
        counter = "/sys/class/net/cable/statistics/rx_bytes"
        return int(subprocess.check_output([*self.network.prefix(host), "cat", counter]))

    @contextlib.contextmanager
    def client(self, program: str, *arguments: str) -> Iterator[Client]:
        command = [*self.network.prefix(CLIENTS), *OWN_PROCESSES, sys.executable, "-c", program, self.network.listens]
        with subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            start_new_session=True,
        ) as process:
            try:
                yield Client(process)
            finally:
                process.kill()

    def close(self) -> None:
        for command in self._commands.values():
            command.kill_all()


class Client:
    """A program on the host of the clients, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []

    def next(self) -> str:
        """Return what it says next; nothing: it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        self.said.append(line)
        return line

    def go_on(self) -> None:
        """It waits for a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Callable[..., Hosts]]:
    if not Namespaces.can_be_made():
        pytest.skip("only root can make namespaces, with ip, nft, ss and tc")
    with contextlib.ExitStack() as stack:
        network = Namespaces()
        stack.callback(network.close)

        def make(*names: str) -> Hosts:
            made = Hosts(network, tmp_path, *names)
            stack.callback(made.close)
            return made

        yield make


SHARED = """
import sys
from concurrent.futures import wait
from scaler import Client

SIZE = int(sys.argv[2])

def make():
    return bytes(range(256)) * (SIZE // 256)

def check(value, _place):
    return value == bytes(range(256)) * (len(value) // 256) and len(value)

with Client(sys.argv[1], timeout_seconds=60) as client:
    client.wait_for_workers(len(sys.argv) - 3, timeout=60)
    value = client.options(capabilities={sys.argv[3]: 1}).submit(make)
    wait([value], 60)
    print("made", flush=True)
    sys.stdin.readline()
    for places in (sys.argv[4:], sys.argv[4:]):
        futures = [client.options(capabilities={place: 1}).submit(check, value, place) for place in places]
        print([future.result(60) for future in futures] == [SIZE] * len(futures), flush=True)
"""


def test_a_value_that_four_hosts_use_is_sent_once_to_each_of_them(hosts: Callable[..., Hosts]) -> None:
    names, size = ("maker", "one", "two", "three"), 25_600_000
    scene = hosts(*names)
    for name in names:
        scene.start(name, "--capabilities", name)
    with scene.client(SHARED, str(size), *names) as client:
        assert client.next() == "made"
        before = [scene.sent("maker"), *(scene.received(name) for name in names[1:])]
        client.go_on()
        assert [client.next() for _ in range(2)] == ["True"] * 2
        after = [scene.sent("maker"), *(scene.received(name) for name in names[1:])]
    sent, *received = (new - old for new, old in zip(after, before, strict=True))
    print(
        f"of {size:,} bytes the maker sent {sent / size:.2f}, others got {[round(got / size, 2) for got in received]}"
    )
    assert sent < 2.0 * size
    assert all(size <= got < 1.1 * size for got in received)
    assert peak_bytes(scene.scheduler.pid) < 120_000_000


READER = """
import sys, time
from scaler import Client
from scaler.errors import ScalerError

SIZE = 10_000_000

def make(number):
    return number.to_bytes(8, "big") * (SIZE // 8)

count = int(sys.argv[2])
with Client(sys.argv[1], timeout_seconds=60) as client:
    client.wait_for_workers(2, timeout=60)
    futures = [client.submit(make, number) for number in range(count)]
    for number in range(count):
        try:
            said = "right" if futures[number].result(300) == make(number) else "wrong"
        except ScalerError as error:
            said = type(error).__name__
        futures[number] = None
        print(number, said, flush=True)
        time.sleep(float(sys.argv[3]))
"""

TENTH, WHOLE = 100, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])
VALUE_BYTES = 10_000_000
DEADLINE_SECONDS = 60.0


def _options(count: int) -> Sequence[str]:
    """A host has memory for a tenth of all values, and disk for four."""
    hot = count // 10 * VALUE_BYTES
    return ("--object-memory-bytes", str(hot), "--spill-bytes", str(4 * hot))


def _ends_empty(scene: Hosts, *names: str) -> None:
    for name in names:
        wait_until(lambda name=name: not scene.files(name), f"nothing is left on {name}", DEADLINE_SECONDS)
        scene.terminate(name)
        assert list(scene.disk(name).iterdir()) == []


@pytest.mark.parametrize("count", [TENTH, WHOLE])
def test_more_values_than_memory_pass_two_hosts_to_a_slow_reader(hosts: Callable[..., Hosts], count: int) -> None:
    scene = hosts("one", "two")
    for name in ("one", "two"):
        scene.start(name, *_options(count))
    with scene.client(READER, str(count), "0.02") as client:
        for number in range(count):
            assert client.next() == f"{number} right"
    assert scene.files("one") == scene.files("two") == []
    print(f"scheduler: {peak_bytes(scene.scheduler.pid):,} bytes")
    assert peak_bytes(scene.scheduler.pid) < 120_000_000
    _ends_empty(scene, "one", "two")


def _image(path: Path, n_bytes: int) -> Path:
    """A disk of its own."""
    if os.getuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("only root can mount a disk")
    with path.open("wb") as stream:
        stream.truncate(n_bytes)
    subprocess.run(["mkfs.ext4", "-q", path], check=True)
    return path


@pytest.mark.parametrize("count", [TENTH, WHOLE])
def test_nothing_hangs_or_is_wrong_when_disk_hosts_scheduler_and_client_fail(
    hosts: Callable[..., Hosts], tmp_path: Path, count: int
) -> None:
    """The disk of one host is full half-way. The scheduler is killed while the first values are read, and once more at
    the end; the other host in the middle, while one of its values is read; a second client before it has read anything.
    """
    scene = hosts("one", "two")
    peaks = []
    scene.start("one", *_options(count))
    scene.start("two", *_options(count), disk=_image(tmp_path / "image", 2 * count // 10 * VALUE_BYTES))
    with scene.client(READER, str(count), "0.02") as client:
        for number in range(count):
            if number in (count // 5, 4 * count // 5):
                peaks.append(peak_bytes(scene.scheduler.pid))
                scene.kill(SCHEDULER)
                scene.start_scheduler()
            elif number == count // 2:
                scene.kill("one")
                scene.start("one", *_options(count))
            assert client.next() == f"{number} right"
    with scene.client(READER, str(count), "60") as client:
        assert client.next() == "0 right"
        wait_until(lambda: scene.files("one") and scene.files("two"), "values wait on disk", DEADLINE_SECONDS)
    peaks.append(peak_bytes(scene.scheduler.pid))
    print(f"scheduler: {peaks} bytes")
    assert max(peaks) < 120_000_000
    for name in ("one", "two"):
        wait_until(lambda name=name: not scene.files(name), f"nothing is left on {name}", DEADLINE_SECONDS)
    scene.terminate("one")
    assert list(scene.disk("one").iterdir()) == []
