"""Another program takes the address of a scheduler for some time: whoever was up goes on when the scheduler is back."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import date
from functools import partial
from pathlib import Path

import pytest
import zmq

from scaler import AsyncClient, AuthenticationError, Client
from scaler.endpoint import Endpoint
from scaler.keys.finding import folder_for
from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import CLIENT
from scaler.monitor.subscriber import Subscriber
from tests.support.fake_scheduler import FakeScheduler
from tests.support.keys import OPEN
from tests.support.processes import Command, command, free_address, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.more]

WARNING = "another program answers at"
GARBAGE = "bytes that are not a message of a scheduler"
NO_KEYS = (OPEN,)

Stranger = Callable[[str, str, Path], AbstractContextManager[object]]
"""Takes an address, and that of the monitor if it can, with a folder for its keys."""


@contextlib.contextmanager
def other_scheduler(address: str, monitor: str, folder: Path, *, has_keys: bool) -> Iterator[None]:
    if has_keys:
        KeyFolder.make(folder, [address, monitor])
    keys = ("--keys", str(folder)) if has_keys else NO_KEYS
    with command("scheduler", address, "--monitor-address", monitor, *keys) as running:
        running.wait_for("address tcp")
        yield


@contextlib.contextmanager
def web_server(address: str, _monitor: str, _folder: Path) -> Iterator[None]:
    endpoint = Endpoint.parse(address)
    server = http.server.HTTPServer((endpoint.host, int(endpoint.port)), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def garbled(address: str, _monitor: str, _folder: Path) -> Iterator[None]:
    """A program that speaks ZeroMQ, and answers each message with one that nobody can read."""
    is_over = threading.Event()

    def answer() -> None:
        with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
            socket.bind(address)
            while not is_over.is_set():
                if socket.poll(50):
                    socket.send_multipart([socket.recv_multipart()[0], b"garbage"])

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def other_version(address: str, _monitor: str, _folder: Path) -> FakeScheduler:
    return FakeScheduler(address, refuses_hellos_because="it speaks another protocol")


STRANGERS: dict[str, tuple[tuple[str, ...], Stranger, str]] = {
    "a scheduler with other keys": (
        (),
        partial(other_scheduler, has_keys=True),
        "is not the scheduler that the key in",
    ),
    "a scheduler without keys": ((), partial(other_scheduler, has_keys=False), "has no keys, though "),
    "a web server": ((), web_server, ""),
    "a scheduler with keys": (NO_KEYS, partial(other_scheduler, has_keys=True), "accepts only peers with a key"),
    "a scheduler of another version": (NO_KEYS, other_version, "it speaks another protocol"),
    "another program": (NO_KEYS, garbled, GARBAGE),
}


def hold(notes: str, name: str, release: str) -> str:
    with Path(notes).open("a") as stream:
        stream.write(f"{name}\n")
    while not Path(release).exists():
        time.sleep(0.05)
    return name


class Site:
    """A scheduler at a fixed address, a cluster, and a folder for what tasks write."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, arguments: tuple[str, ...]) -> None:
        self.folder, self.address, self.monitor = folder, free_address(), free_address()
        self._stack, self._arguments = stack, arguments
        self.notes, self.release = folder / "notes", folder / "release"
        self.notes.touch()
        self.scheduler = self.start()
        self.cluster = self._entered("cluster", self.address, "-n", "4", "--death-timeout-seconds", "60")
        self.cluster.wait_for(" up: scheduler")

    def _entered(self, *arguments: str) -> Command:
        return self._stack.enter_context(command(*arguments))

    def start(self) -> Command:
        running = self._entered("scheduler", self.address, "--monitor-address", self.monitor, *self._arguments)
        running.wait_for("address tcp")
        return running

    def kill(self) -> None:
        self.scheduler.signal(signal.SIGKILL)
        self.scheduler.process.wait()

    def hold(self, name: str) -> tuple[Callable[..., str], str, str, str]:
        return hold, str(self.notes), name, str(self.release)

    def started(self) -> list[str]:
        return sorted(self.notes.read_text().split())


@pytest.mark.parametrize("kind", STRANGERS)
def test_peers_that_were_connected_continue_when_their_scheduler_is_back(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arguments, stranger, reason = STRANGERS[kind]

    async def use_async() -> None:
        async with AsyncClient(site.address) as client:
            held = client.submit(*site.hold("async"))
            await asyncio.to_thread(wait_until, lambda: len(site.started()) == 3, "all run")
            await asyncio.to_thread(take_address)
            assert await client.submit(pow, 2, 10) == 1024
            assert await held == "async"

    def take_address() -> None:
        site.kill()
        with stranger(site.address, site.monitor, tmp_path / "other"):
            queued.append(client.submit(pow, 3, 2))
            if reason:
                wait_until(lambda: caplog.text.count(reason) >= 2, "both clients have logged it")
                if stranger is not other_version:  # it knows nothing of agents
                    site.cluster.wait_for(reason)
            let_viewer_look()
        site.start()
        site.release.touch()

    def let_viewer_look() -> None:
        ends_at = time.monotonic() + 5
        while time.monotonic() < ends_at:
            viewer.receive()
            viewer.wait(0.1)
            assert viewer.refusal == "", "what it has heard before is still shown"
        if isinstance(stranger, partial):  # it has the address of the monitor, too
            assert viewer.problem

    queued: list[object] = []
    caplog.set_level(logging.WARNING, logger="scaler")
    with contextlib.ExitStack() as stack:
        site = Site(tmp_path, stack, arguments)
        viewer = stack.enter_context(contextlib.closing(Subscriber(site.monitor, ["scheduler"])))
        wait_until(viewer.receive, "the viewer has news")
        client = stack.enter_context(Client(site.address, timeout_seconds=60))
        held = client.submit(*site.hold("running"))
        once = client.options(at_most_once=True).submit(*site.hold("once"))
        asyncio.run(use_async())
        assert (held.result(60), once.result(60)) == ("running", "once")
        assert [each.result(60) for each in queued] == [9]
        assert client.submit(pow, 2, 10).result(60) == 1024
        assert site.started() == ["async", "once", "running"], "none ran twice"
        wait_until(viewer.receive, "the viewer has news again")
        assert viewer.refusal == ""
        assert site.cluster.process.poll() is None
        client.disconnect()


def test_peers_that_never_connected_are_refused_at_once_and_connected_ones_time_out_as_usual(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        site = Site(tmp_path, stack, ())
        client = stack.enter_context(Client(site.address, timeout_seconds=6))
        assert client.submit(pow, 2, 10).result(60) == 1024
        future = client.submit(*site.hold("running"))
        wait_until(site.started, "it runs")
        site.kill()
        stack.enter_context(other_scheduler(site.address, site.monitor, tmp_path / "other", has_keys=True))
        began = time.monotonic()
        with pytest.raises(AuthenticationError), Client(site.address, timeout_seconds=60) as other:
            other.submit(pow, 2, 10).result()
        assert time.monotonic() - began < 20
        with pytest.raises(TimeoutError, match="not the scheduler that accepted this client"):
            future.result(60)
        site.release.touch()


def test_a_key_that_is_revoked_meanwhile_ends_its_holder_when_the_scheduler_is_back(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        site = Site(tmp_path, stack, ())
        keys, today = KeyFolder(folder_for(Endpoint.parse(site.address))), date.today()  # noqa: DTZ011 - as the command does
        file = keys.allow("alice", CLIENT, None, today)
        client = stack.enter_context(Client(file, timeout_seconds=60))
        future = client.submit(*site.hold("hers"))
        wait_until(site.started, "it runs")
        site.kill()
        with other_scheduler(site.address, site.monitor, tmp_path / "other", has_keys=True):
            site.cluster.wait_for(WARNING)
            keys.revoke("alice", today)
        site.start()
        with pytest.raises(AuthenticationError, match="it was revoked"):
            future.result(30)
        with pytest.raises(AuthenticationError, match="it was revoked"):
            client.submit(pow, 2, 10).result(30)
        site.release.touch()
