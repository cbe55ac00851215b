"""A TCP proxy between peers and a scheduler, which can become a black hole: nothing passes, and no connection ends."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from urllib.parse import urlparse

READ_BYTES = 1 << 16


class Proxy:
    """Forwards whatever comes to `target`; `address` is where it listens."""

    def __init__(self, target: str) -> None:
        self._target = (urlparse(target).hostname, urlparse(target).port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._peers: dict[socket.socket, socket.socket] = {}
        self._is_open = threading.Event()
        self._is_open.set()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def swallow(self) -> None:
        """From now on nothing passes, and nothing is accepted, refused or closed."""
        self._is_open.clear()

    def pass_on(self) -> None:
        """What waits and what comes passes again."""
        self._is_open.set()

    def _run(self) -> None:
        while not self._is_over:
            self._is_open.wait()
            readable, _, _ = select.select([self._listener, *self._peers], [], [], 0.05)
            for one in readable if self._is_open.is_set() else ():
                if one is self._listener:
                    self._accept()
                elif one in self._peers:
                    self._forward(one)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        self._peers |= {near: far, far: near}

    def _forward(self, one: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = one.recv(READ_BYTES)
            if data:
                self._peers[one].sendall(data)
                return
        other = self._peers.pop(one)
        del self._peers[other]
        one.close()
        other.close()

    def close(self) -> None:
        self._is_over = True
        self._is_open.set()
        self._thread.join()
        for each in (self._listener, *self._peers):
            each.close()

    def __enter__(self) -> Proxy:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
