"""Keys for tests, for peers that are not of Scaler, and for schedulers with several addresses."""

from __future__ import annotations

import shutil

import zmq

from scaler.endpoint import Endpoint
from scaler.keys.finding import folder_for, keys_for
from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import CLIENT, KeyFile

OPEN = "--insecure-let-everybody-run-code"
"""an option for schedulers whose peers speak ZMTP by themselves, without CURVE"""


def connect(socket: zmq.Socket[bytes], address: str, role: str = CLIENT) -> None:
    """Connect a plain socket of ZeroMQ to a scheduler of this user, with its key if it has keys."""
    for key in keys_for(Endpoint.parse(address), role)[:1]:
        show(socket, key)
    socket.connect(address)


def show(socket: zmq.Socket[bytes], key: KeyFile) -> None:
    socket.setsockopt_string(zmq.CURVE_SERVERKEY, key.servers[0])
    socket.setsockopt_string(zmq.CURVE_PUBLICKEY, key.public)
    socket.setsockopt_string(zmq.CURVE_SECRETKEY, key.secret)


def make(address: str) -> None:
    """Make the keys of a scheduler that does not run yet."""
    KeyFolder.make(folder_for(Endpoint.parse(address)), [address])


def also_at(address: str, other: str) -> None:
    """Let peers find the keys of a scheduler also at another address that leads to it, of a tunnel or a proxy."""
    keys = folder_for(Endpoint.parse(address))
    if keys.exists():
        shutil.copytree(keys, folder_for(Endpoint.parse(other)), ignore=shutil.ignore_patterns("scheduler.key"))
