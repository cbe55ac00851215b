"""HostShare: adds up what the stores of one user hold on one host, so that all of them keep to one budget.

Each store writes the number of its bytes to a locked file of its own, in a folder that only its user can enter. The
system ends the lock when the process ends, even if it was killed. Then the bytes no longer count, and the next reader
removes the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import struct
import tempfile
from pathlib import Path
from typing import NamedTuple

from scaler.keys.private_files import new_private_folder

logger = logging.getLogger(__name__)

_GRAIN = 4 << 20
"""The number of bytes that a store reports is rounded up to a multiple of this number."""
_SUFFIX = ".held"
_NUMBERS = struct.Struct("<QQ")


class StoredBytes(NamedTuple):
    """Bytes that stores hold in shared memory (hot) and on disk (cold)."""

    hot: int = 0
    cold: int = 0


def folder_of_user() -> Path:
    """Return the folder of this user's programs, created if missing. Raises `OSError` if others could write to it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "scaler" if runtime else Path(tempfile.gettempdir()) / f"scaler-values-{os.getuid()}"
    _make_private(folder)
    return folder


def _make_private(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        new_private_folder(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder that only this user can enter")


def is_locked(descriptor: int) -> bool:
    """Return whether another process has locked a file. If no other process has, lock the file for this process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def new_locked(file: Path) -> int:
    """Create a file, locked before other processes can see it. Return its descriptor. Raises `OSError`."""
    aside = file.with_name(f".{file.name}.new")
    descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        aside.rename(file)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class HostShare:
    """Reports the bytes of one store, and reads the reports of the user's other stores on this host.

    Args:
        folder: where the stores of this user report their bytes; None: the budget is for this store alone.
        refresh_bytes: the change of this store's bytes after which the reports of other stores are read.

    Attributes:
        others: the bytes of all other stores when their reports were last read.
    """

    def __init__(self, folder: Path | None, refresh_bytes: int = 0) -> None:
        self.others = StoredBytes()
        self._own = self._own_at_refresh = StoredBytes()
        self._refresh_bytes = refresh_bytes
        self._file: Path | None = None
        self._descriptor = -1
        if folder is not None:
            self._file = folder / f"{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"
            self._descriptor = new_locked(self._file)
            self._write()

    def report(self, hot: int, cold: int) -> None:
        """Report the bytes that this store holds now. After large changes, also read the reports of other stores."""
        own = StoredBytes(-(-hot // _GRAIN) * _GRAIN, -(-cold // _GRAIN) * _GRAIN)
        if own != self._own and self._file is not None:
            self._own = own
            self._write()
            if any(abs(now - then) >= self._refresh_bytes for now, then in zip(own, self._own_at_refresh, strict=True)):
                self.refresh()  # after its own report: of two stores that grow at once, at least one sees both

    def refresh(self) -> None:
        """Read the reports of all other stores."""
        self._own_at_refresh = self._own
        if self._file is not None:
            held = [_held(file) for file in self._file.parent.glob(f"*{_SUFFIX}") if file != self._file]
            self.others = StoredBytes(sum(each.hot for each in held), sum(each.cold for each in held))

    def close(self) -> None:
        """Remove the report of this store."""
        if self._file is not None:
            self.refresh()  # also removes the files of killed processes
            self._file.unlink(missing_ok=True)
            os.close(self._descriptor)
            with contextlib.suppress(OSError):  # other stores use it
                self._file.parent.rmdir()
            self._file = None

    def _write(self) -> None:
        if self._file is not None and not os.fstat(self._descriptor).st_nlink:
            self._make_again(self._file)
        os.pwrite(self._descriptor, _NUMBERS.pack(*self._own), 0)

    def _make_again(self, file: Path) -> None:
        """Create the file of the report again after another program has removed it, perhaps with its folder."""
        try:
            _make_private(file.parent)
            descriptor = new_locked(file)
        except OSError as error:
            logger.warning(
                "other clusters of this user do not see what this cluster stores, so they may store too much: %s",
                error,
            )
            return
        os.close(self._descriptor)
        self._descriptor = descriptor


def _held(file: Path) -> StoredBytes:
    """Return the bytes that another store holds. If that store's process has ended, remove its file, and return 0."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return StoredBytes()  # it has just ended
    try:
        if is_locked(descriptor):
            numbers = os.pread(descriptor, _NUMBERS.size, 0)
            return StoredBytes(*_NUMBERS.unpack(numbers)) if len(numbers) == _NUMBERS.size else StoredBytes()
        file.unlink(missing_ok=True)
        return StoredBytes()
    finally:
        os.close(descriptor)
