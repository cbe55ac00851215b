"""Tap: a TCP wire to a scheduler that records what its peers send, and may change it on the way."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from scaler.endpoint import Endpoint
from tests.support.keys import also_at


class Tap:
    """Listens at `address`, with one thread for each direction of each connection to the scheduler at `target`.

    Args:
        change: takes bytes for the scheduler, and the number of chunks received on this connection, including this one;
            returns the bytes to forward.
    """

    def __init__(self, target: str, change: Callable[[bytes, int], bytes] = lambda data, n_heard: data) -> None:
        self._endpoint = Endpoint.parse(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        also_at(target, self.address)
        self._change = change
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self.heard: list[bytes] = []
        """the chunks that the peer of the last connection has sent"""
        self.connections = 0
        self._begin(self._serve)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((self._endpoint.host, int(self._endpoint.port)))
                self._sockets += [near, far]
                self.connections += 1
                self.heard = []
                self._begin(self._pass_on, near, far, self.heard, True)
                self._begin(self._pass_on, far, near, self.heard, False)

    def _pass_on(self, source: socket.socket, target: socket.socket, heard: list[bytes], is_up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if is_up:
                    heard.append(data)
                target.sendall(self._change(data, len(heard)) if is_up else data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()
