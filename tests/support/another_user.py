"""A program of another user of the machine that listens at a socket file, in place of a scheduler or monitor stream."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user"
)
NOBODY = 65534

_STREAM = """
import os, socket, sys
os.umask(0)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listens", flush=True)
while True:
    peer, _ = listener.accept()
    try:
        peer.sendall(b"scaler stream 1\\n")
        received = b"".join(iter(lambda: peer.recv(65536), b""))
    except ConnectionError:
        received = b""
    print(f"received {len(received)} bytes", flush=True)
"""
_PUBLISHER = """
import os, sys, zmq
os.umask(0)
socket = zmq.Context().socket(zmq.XPUB)
ends = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
socket.bind("ipc://" + sys.argv[1])
print("listens", flush=True)
poller = zmq.Poller()
poller.register(socket, zmq.POLLIN)
poller.register(ends, zmq.POLLIN)
while True:
    ready = dict(poller.poll())
    if socket in ready:
        print(f"received {socket.recv()}", flush=True)
    elif ends in ready:
        ends.recv_multipart()
        print("received nothing more", flush=True)
"""


def as_user(uid: int) -> list[str]:
    """Return the command prefix that runs a program as another user, who may read the files of Python."""
    may_read = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", *may_read]


class Stranger:
    """A program of the user 65534 that listens at a file.

    Args:
        publishes: whether it speaks ZeroMQ, as a monitor stream does, instead of the protocol of a scheduler.
    """

    def __init__(self, file: Path, *, publishes: bool = False) -> None:
        program = [sys.executable, "-c", _PUBLISHER if publishes else _STREAM, str(file)]
        self._program = subprocess.Popen([*as_user(NOBODY), *program], stdout=subprocess.PIPE, text=True)
        assert self._program.stdout is not None
        self._lines = self._program.stdout
        assert self._lines.readline() == "listens\n"

    def received(self, count: int = 1) -> set[str]:
        """Return the next lines of the program: what each of its ended connections has sent."""
        return {self._lines.readline().strip() for _ in range(count)}

    def close(self) -> None:
        self._program.kill()
        self._program.wait()
        self._lines.close()
