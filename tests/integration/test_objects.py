"""What crosses the network to a node, seen from the wire."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import socket
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from scaler.shared_memory import SHARING_VARIABLE, SharedFrames
from tests.support.keys import also_at
from tests.support.processes import command, scheduler, wait_until

OBJECT_BYTES = 5_000_000


class Relay:
    """Stands between an agent and the scheduler, and counts the bytes that go to the agent."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("tcp://").split(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        also_at(address, self.address)
        self.bytes_to_agent = 0
        self._sockets: list[socket.socket] = []
        self._is_whole = threading.Event()
        self._is_whole.set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                agent, _ = self._listener.accept()
                self._is_whole.wait()
                upstream = socket.create_connection(self._target)
                self._sockets += [agent, upstream]
                for source, sink, counts in ((agent, upstream, False), (upstream, agent, True)):
                    thread = threading.Thread(target=self._pump, args=(source, sink, counts))
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if counts:
                    self.bytes_to_agent += len(data)
                sink.sendall(data)

    def cut(self) -> None:
        """Break what is connected; new connections lead nowhere until `mend`."""
        self._is_whole.clear()
        self._shut(self._sockets)

    def mend(self) -> None:
        self._is_whole.set()

    def close(self) -> None:
        self.mend()
        self._shut([self._listener, *self._sockets])
        for thread in self._threads:
            thread.join(60)

    def _shut(self, ends: list[socket.socket]) -> None:
        for end in list(ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_an_object_of_a_client_on_the_same_machine_is_not_sent() -> None:
    with (
        scheduler() as (address, _),
        contextlib.closing(Relay(address)) as relay,
        command("cluster", relay.address, "-n", "2"),
        Client(address) as client,
    ):
        data = os.urandom(OBJECT_BYTES)
        reference = client.send_object(data)
        results = client.map(zlib.crc32, [(reference,)] * 20 + [(data,)] * 5)
        assert results == [zlib.crc32(data)] * 25
        assert relay.bytes_to_agent < OBJECT_BYTES / 10


def test_shared_memory_is_returned_to_the_system() -> None:
    with scheduler() as (address, _), command("cluster", address, "-n", "1"), Client(address) as client:
        before = len(SharedFrames._open)
        assert client.submit(len, os.urandom(OBJECT_BYTES)).result() == OBJECT_BYTES
        reference = client.send_object(os.urandom(OBJECT_BYTES))
        assert client.submit(len, reference).result() == OBJECT_BYTES
        del reference
        wait_until(lambda: len(SharedFrames._open) == before, "the memory is given back")


@pytest.mark.parametrize("where", ["client", "cluster"])
def test_an_object_that_many_tasks_share_crosses_to_the_node_once(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a node cannot look into the client's memory, and the client is asked for the bytes."""
    if where == "client":
        monkeypatch.setenv(SHARING_VARIABLE, "0")
    with (
        scheduler() as (address, _),
        contextlib.closing(Relay(address)) as relay,
        command("cluster", relay.address, "-n", "2", env={SHARING_VARIABLE: "0"}),
        Client(address) as client,
    ):
        reference = client.send_object(os.urandom(OBJECT_BYTES))
        assert client.map(len, [(reference,)] * 200) == [OBJECT_BYTES] * 200
        assert OBJECT_BYTES <= relay.bytes_to_agent < 1.2 * OBJECT_BYTES


def test_a_large_result_of_a_graph_does_not_come_back_to_the_node_that_made_it() -> None:
    graph: dict[str, Any] = {"big": (os.urandom, OBJECT_BYTES), **{f"n{i}": (len, "big") for i in range(20)}}
    with (
        scheduler() as (address, _),
        contextlib.closing(Relay(address)) as relay,
        command("cluster", relay.address, "-n", "2"),
        Client(address) as client,
    ):
        keys = [key for key in graph if key != "big"]
        assert client.get(graph, keys) == dict.fromkeys(keys, OBJECT_BYTES)
        assert relay.bytes_to_agent < 0.2 * OBJECT_BYTES


def test_a_large_function_crosses_to_the_node_once() -> None:
    data = os.urandom(OBJECT_BYTES)
    with (
        scheduler() as (address, _),
        contextlib.closing(Relay(address)) as relay,
        command("cluster", relay.address, "-n", "2"),
        Client(address) as client,
    ):
        assert client.map(lambda i: data[i], [(i,) for i in range(500)]) == list(data[:500])
        assert OBJECT_BYTES <= relay.bytes_to_agent < 1.2 * OBJECT_BYTES


def large_function(data: bytes) -> Callable[[int], int]:
    return lambda i: data[i]


@pytest.mark.parametrize(("retention", "crossings"), [("60", 1), ("0", 2)])
def test_a_function_of_a_client_that_left_stays_with_the_node_for_the_retention_time(
    retention: str, crossings: int
) -> None:
    function = large_function(os.urandom(OBJECT_BYTES))
    with (
        scheduler(None, "-ot", retention) as (address, _),
        contextlib.closing(Relay(address)) as relay,
        command("cluster", relay.address, "-n", "1") as cluster,
    ):
        for _ in range(2):
            with Client(address) as client:
                client.submit(pow, 2, 3).result(30)  # the processor is there, and with it its progress page
                before = blocks_of(cluster.pid) if retention == "0" else 0
                client.submit(function, 1).result(30)
            if retention == "0":
                wait_until(lambda: blocks_of(cluster.pid) == before, "the function is forgotten")  # noqa: B023
        assert crossings * OBJECT_BYTES <= relay.bytes_to_agent < (crossings + 0.2) * OBJECT_BYTES


def test_a_retained_function_is_removed_from_the_node_after_the_retention_time() -> None:
    with scheduler(None, "-ot", "0.5") as (address, _), command("cluster", address, "-n", "1") as cluster:
        with Client(address) as client:
            client.submit(pow, 2, 3).result(30)  # the processor is there, and with it its progress page
            before = blocks_of(cluster.pid)
            client.submit(large_function(os.urandom(OBJECT_BYTES)), 1).result(30)
            assert blocks_of(cluster.pid) == before + 1
        wait_until(lambda: blocks_of(cluster.pid) == before, "the agent forgets the function")


def blocks_of(pid: int) -> int:
    """Return how many blocks of shared memory a process holds."""
    links: list[Any] = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(descriptor.readlink())
    return sum("memfd:" in str(link) for link in links)


HUGE_BYTES = 600_000_000
"""More than Cap'n Proto takes in one field: 512 MiB."""


def huge_argument(client: Client) -> bool:
    data = bytes(1_000_000) * (HUGE_BYTES // 1_000_000 - 1) + b"x" * 1_000_000
    return client.submit(count_and_find, data).result(120) == (HUGE_BYTES, 1_000_000)


def huge_result(client: Client) -> bool:
    result = client.submit(bytes, HUGE_BYTES).result(120)
    return (len(result), result.count(0)) == (HUGE_BYTES, HUGE_BYTES)


def count_and_find(data: bytes) -> tuple[int, int]:
    return len(data), data.count(b"x")


@pytest.mark.parametrize(
    ("travel", "sharing"),
    [
        pytest.param(huge_argument, "1", id="argument-shared", marks=pytest.mark.soak),
        pytest.param(huge_argument, "0", id="argument-sent", marks=pytest.mark.more),
        pytest.param(huge_result, "1", id="result", marks=pytest.mark.soak),
    ],
)
def test_values_of_more_than_half_a_gigabyte_travel(
    travel: Callable[[Client], bool], sharing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARING_VARIABLE, sharing)
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "1", env={SHARING_VARIABLE: sharing}),
        Client(address) as client,
    ):
        assert travel(client)


def test_a_partial_with_much_data_crosses_to_the_node_once_for_ten_thousand_inputs() -> None:
    data = os.urandom(OBJECT_BYTES)
    with (
        scheduler() as (address, _),
        contextlib.closing(Relay(address)) as relay,
        command("cluster", relay.address, "-n", "2"),
        Client(address) as client,
    ):
        function = functools.partial(operator.getitem, data)
        assert client.map(function, [(i,) for i in range(10_000)]) == list(data[:10_000])
        assert OBJECT_BYTES <= relay.bytes_to_agent < 1.3 * OBJECT_BYTES


@pytest.mark.parametrize("comes_back_in_time", [True, False])
def test_an_object_deleted_while_a_node_is_disconnected_is_deleted_there_after_reconnection(
    comes_back_in_time: bool,
) -> None:
    """For a new session, what no client has named yet is retained for a while."""
    with (
        scheduler(None, "-ot", "1") as (address, running),
        contextlib.closing(Relay(address)) as relay,
        command("cluster", relay.address, "-n", "1") as cluster,
        Client(address) as client,
    ):
        client.submit(pow, 2, 3).result(30)
        before = blocks_of(cluster.pid)
        kept, deleted = (client.send_object(os.urandom(OBJECT_BYTES)) for _ in range(2))
        assert client.map(len, [(kept,), (deleted,)]) == [OBJECT_BYTES] * 2
        assert blocks_of(cluster.pid) == before + 2
        relay.cut()
        running.wait_for("to reconnect")
        del deleted
        if not comes_back_in_time:
            running.wait_for("is lost: it was silent")
        relay.mend()
        wait_until(lambda: blocks_of(cluster.pid) == before + 1, "one of the two is deleted")
        received = relay.bytes_to_agent
        assert client.submit(len, kept).result(30) == OBJECT_BYTES
        assert relay.bytes_to_agent < received + OBJECT_BYTES
        del kept
        wait_until(lambda: blocks_of(cluster.pid) == before, "so is the other")
