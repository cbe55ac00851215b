"""Private addresses: a socket file in a folder that only its user can enter.

Used by the listeners, the publisher, and programs that start a scheduler. Loopback ports are open to every user of the
machine, and to web pages in a browser. A private address is open to its user only.

A folder is removed by its scheduler, or by the program that started the scheduler. If both are killed at once, the
folder stays. So a file in each folder lists the processes that use the folder. Making a new folder removes all folders
whose processes have ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from scaler.endpoint import Endpoint, ipc_address
from scaler.keys.private_files import private_opener

_PATH_BYTES_MOST = 66
"""The limit on the length of the parent folder's path. An address adds `/scaler-12345678/scheduler_monitor` to it."""
_PREFIX = "scaler-"
STALE_SECONDS = 60.0
"""The age below which a socket file may belong to a process that is about to listen."""
_USERS = "users"  # the file with the process ids, one per line
_IMPORTS = "imports"
_END = "."  # its last line: a file without it is still being written


def new_private_endpoint(name: str = "scheduler") -> Endpoint:
    """Return the address of a socket file with this name, in a new folder of mode 0700."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) > _PATH_BYTES_MOST:
        parent = "/tmp"  # noqa: S108 - the folder below it is made by mkdtemp
    _remove_abandoned_folders(Path(parent))
    endpoint = Endpoint.parse(ipc_address(f"{tempfile.mkdtemp(prefix=_PREFIX, dir=parent)}/{name}"))
    keep_private_folder_for(endpoint, os.getpid())
    return endpoint


def keep_private_folder_for(endpoint: Endpoint, pid: int) -> None:
    """Keep the folder of an address made by `new_private_endpoint` as long as the process `pid` lives."""
    file = endpoint.file
    if file is not None:
        with contextlib.suppress(OSError), open(file.parent / _USERS, "a", opener=private_opener) as users:
            users.write(f"{pid}\n")


class ImportsFile:
    """A file in a private folder: a program tells its cluster in this file which modules the program's tasks need."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @classmethod
    def at(cls, endpoint: Endpoint) -> ImportsFile | None:
        """Return the file for an address; None if `new_private_endpoint` did not make the address for this user."""
        file = endpoint.file
        if file is None or not file.parent.name.startswith(_PREFIX):
            return None
        with contextlib.suppress(OSError):
            folder = file.parent.stat()
            if folder.st_uid == os.getuid() and not folder.st_mode & 0o077 and (file.parent / _USERS).exists():
                return cls(file.parent / _IMPORTS)
        return None

    def say(self, names: Iterable[str]) -> None:
        """Replace the module names in the file. File-system errors are ignored: the cluster may have ended."""
        text = "\n".join([*names, _END]).encode("utf-8", "surrogateescape")
        with contextlib.suppress(OSError), open(self._file, "wb", opener=private_opener) as file:
            file.write(text)

    def take(self) -> list[str]:
        """Return the names in the file and remove the file; empty if the file is missing or not complete."""
        try:
            *names, end = self._file.read_text("utf-8", "surrogateescape").split("\n")
            self._file.unlink()
        except OSError:
            return []
        return names if end == _END else []


def remove_socket(endpoint: Endpoint) -> None:
    """Remove the socket file that an ended process left behind, unless another process listens at the file now."""
    file = endpoint.file
    if file is None:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(file)) == errno.ECONNREFUSED:
            file.unlink(missing_ok=True)


def remove_stale_monitors(folder: Path) -> None:
    """Remove monitor sockets from a folder, if they belong to this user and their schedulers were killed."""
    for file in folder.glob("*_[0-9]*_monitor"):
        with contextlib.suppress(OSError):
            found = file.lstat()
            is_old = time.time() - found.st_mtime > STALE_SECONDS
            if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid() and is_old and not _listens(file):
                file.unlink(missing_ok=True)


def remove_private_folder(endpoint: Endpoint) -> None:
    """Remove the socket and the folder of an address made by `new_private_endpoint`."""
    file = endpoint.file
    if file is not None:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
            if endpoint.monitor is not None and endpoint.monitor.file is not None:
                endpoint.monitor.file.unlink(missing_ok=True)
            (file.parent / _IMPORTS).unlink(missing_ok=True)
            (file.parent / _USERS).unlink(missing_ok=True)
            file.parent.rmdir()


def _remove_abandoned_folders(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if _is_abandoned(folder):
                for file in folder.iterdir():
                    if file.is_socket() or file.name in (_USERS, _IMPORTS):
                        file.unlink(missing_ok=True)
                folder.rmdir()


def _is_abandoned(folder: Path) -> bool:
    """Return whether no process needs this folder. Processes of other containers need it only if they listen in it."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return False
    users = (folder / _USERS).read_text()
    if not users.endswith("\n") or any(_is_alive(int(line)) for line in users.splitlines()):
        return False
    return not any(file.is_socket() and _listens(file) for file in folder.iterdir())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _listens(file: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # the queue of a stopped process may be full
        return probe.connect_ex(str(file)) != errno.ECONNREFUSED
