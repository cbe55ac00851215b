"""What crosses the network to a node, seen from the wire."""

from __future__ import annotations

import contextlib
import os
import socket
import threading

from scaler import Client
from tests.support.processes import command, scheduler

OBJECT_BYTES = 5_000_000


class Relay:
    """Stands between an agent and the scheduler, and counts the bytes that go to the agent."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("tcp://").split(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.bytes_to_agent = 0
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                agent, _ = self._listener.accept()
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

    def close(self) -> None:
        for end in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(10)


def test_an_object_that_many_tasks_share_crosses_to_the_node_once() -> None:
    with (
        scheduler() as (address, _),
        contextlib.closing(Relay(address)) as relay,
        command("cluster", relay.address, "-n", "2"),
        Client(address) as client,
    ):
        reference = client.send_object(os.urandom(OBJECT_BYTES))
        assert client.map(len, [(reference,)] * 200) == [OBJECT_BYTES] * 200
        assert OBJECT_BYTES <= relay.bytes_to_agent < 1.2 * OBJECT_BYTES


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
