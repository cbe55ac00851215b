"""Binding: makes sockets listen, also at the files of ipc addresses, and finds the user at the other end.

Used by the listeners and by the publisher. A file that another program may own is never removed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket as unix
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scaler.endpoint import Endpoint
from scaler.transport.interface import AddressInUseError

if TYPE_CHECKING:  # streams do not need it
    import zmq


def bind(socket: zmq.Socket[bytes], endpoint: Endpoint) -> None:
    """Make a socket listen at an address. Only this user may connect to an ipc address, whatever the umask."""
    if endpoint.file is None:
        socket.bind(endpoint.address)
        return
    if not endpoint.file.parent.is_dir():  # pyzmq reports this only for a `str`
        import zmq  # noqa: PLC0415 - as above

        raise zmq.ZMQError(errno.ENOENT)
    with only_for_this_user():
        socket.bind(endpoint.encoded)  # type: ignore[arg-type]  # a `str` would have to be UTF-8


def connect(socket: zmq.Socket[bytes], endpoint: Endpoint) -> None:
    """Connect a socket to an address."""
    socket.connect(endpoint.encoded)  # type: ignore[arg-type]  # as above


def bound_at(last_endpoint: int | bytes) -> Endpoint:
    """Return the address at which a socket listens, from its option `LAST_ENDPOINT`."""
    assert isinstance(last_endpoint, bytes)
    return Endpoint.parse(os.fsdecode(last_endpoint))


@contextlib.contextmanager
def only_for_this_user() -> Iterator[None]:
    """Make new files inaccessible to other users while this context manager is active, whatever the umask."""
    umask = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(umask)


def why_cannot_listen(endpoint: Endpoint, error: OSError | zmq.ZMQError) -> str:
    """Return why it is impossible to listen at an address, and what to do about it."""
    everywhere = f"use an address of this machine, or tcp://*:{endpoint.port} for all of its addresses"
    if error.errno == errno.ENODEV:
        return f"this machine knows no host or network interface {endpoint.host!r}; {everywhere}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{endpoint.host} is not an address of this machine; {everywhere}"
    if error.errno == errno.ENOENT and endpoint.file is not None:
        return f"there is no folder {endpoint.file.parent}; make it first"
    return str(error)


def check_ipc_file(endpoint: Endpoint) -> None:
    """Raise an error if an ipc file is no socket, or a process listens at it. Binding would replace the file."""
    file = endpoint.file
    if file is None or not file.exists():
        return
    if not file.is_socket():
        text = f"cannot listen at {endpoint.address}: its file is not a socket: remove it, or use another address"
        raise FileExistsError(errno.EEXIST, text)
    probe = unix.socket(unix.AF_UNIX, unix.SOCK_STREAM)
    try:
        probe.connect(str(file))
    except OSError:
        return  # a file that a killed process left behind
    finally:
        probe.close()
    raise AddressInUseError(errno.EADDRINUSE, f"{endpoint.address} is in use")


_CREDENTIALS = struct.Struct("i2I")
"""The credentials of the process at the other end on Linux: process id, user id and group id."""
_XUCRED, _XUCRED_BYTES_MOST = struct.Struct("2I"), 88
"""The credentials of the process at the other end on macOS and FreeBSD: version of the structure, and user id."""
_SOL_LOCAL, _LOCAL_PEERCRED = 0, getattr(unix, "LOCAL_PEERCRED", None)

KNOWS_PEER_USERS = hasattr(unix, "SO_PEERCRED") or _LOCAL_PEERCRED is not None
"""Whether this system reports the user at the other end of a stream socket."""


def user_at(socket: unix.socket) -> str | None:
    """Return the user who made the other end of a stream socket of this machine; None if the other end has ended."""
    if not KNOWS_PEER_USERS:  # only this user can connect
        return name_of_user(os.geteuid())
    uid = uid_at(socket)
    return None if uid is None else name_of_user(uid)


def uid_at(socket: unix.socket) -> int | None:
    """Return the uid of the process at the other end of a socket of this machine; None if the process has ended."""
    if _LOCAL_PEERCRED is None:
        credentials = _credentials_at(socket)
        return None if credentials is None else credentials[1]
    try:
        return int(_XUCRED.unpack_from(socket.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES_MOST))[1])
    except OSError:
        return None


def process_at(socket: unix.socket) -> int:
    """Return the id of the process that connected the other end of a stream socket of this machine; 0 if unknown."""
    credentials = _credentials_at(socket)
    return 0 if credentials is None else credentials[0]


def _credentials_at(socket: unix.socket) -> tuple[int, ...] | None:
    """Return the ids of the process, user and group at the other end of a socket; None if not reported."""
    if not hasattr(unix, "SO_PEERCRED"):
        return None
    try:
        return _CREDENTIALS.unpack(socket.getsockopt(unix.SOL_SOCKET, unix.SO_PEERCRED, _CREDENTIALS.size))
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def name_of_user(uid: int) -> str:
    """Return the name of a user of this machine, or `uid-` and the number for a user without a name."""
    import pwd  # noqa: PLC0415 - only schedulers need it

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"
