"""Locks: lock files that name the program which holds them, for other programs that find them locked.

Used by the folder of jobs. The system releases a lock when the process that holds it ends. The name stays in the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import NamedTuple

from scaler.texts import NAME_CHARACTERS, printable

HOLDER_BYTES_MOST = 1024


class Holder(NamedTuple):
    """A program that holds a lock."""

    pid: int
    """the process id of the user's program; 0: unknown"""
    name: str

    @property
    def has_ended(self) -> bool:
        """Whether the process of the program has ended, or is unknown. A child process may still hold the lock."""
        if not self.pid:
            return True
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            return False
        return _is_zombie(self.pid)


UNKNOWN = Holder(0, "another program")


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):  # without /proc, its parent must notice its end
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    return False


def take_lock(file: Path, kind: int, holder: Holder | None = None) -> int | None:
    """Lock a file, which is created if missing. Return its descriptor, or None if another process has locked the file.

    Args:
        kind: `fcntl.LOCK_EX` or `fcntl.LOCK_SH`.
        holder: the program to name in the file, for programs that find it locked; None: write no name.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # whatever the umask
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), file.stat()):
            if holder is not None:
                _name(descriptor, holder)
            return descriptor
    except (BlockingIOError, FileNotFoundError):  # locked elsewhere, or removed with its job meanwhile
        pass
    os.close(descriptor)
    return None


def _name(descriptor: int, holder: Holder) -> None:
    with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder.pid} {holder.name}\n".encode(errors="replace")[:HOLDER_BYTES_MOST], 0)


def release(descriptor: int, *, keeps_name: bool = False) -> None:
    """Release a lock, and clear the name in its file. If a process ends without this call, the name stays in the file.

    Args:
        keeps_name: whether to keep the name of an earlier holder, because the caller only tested the lock.
    """
    if not keeps_name:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
    os.close(descriptor)


def holder_of(file: Path) -> Holder:
    """Return the program that a lock file names; `UNKNOWN` if the file names no program."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return UNKNOWN
    try:
        pid, _, name = os.read(descriptor, HOLDER_BYTES_MOST).decode(errors="replace").strip().partition(" ")
    except OSError:
        return UNKNOWN
    finally:
        os.close(descriptor)
    is_named = name and pid.isascii() and pid.isdigit()
    return Holder(int(pid), printable(name, NAME_CHARACTERS)) if is_named else UNKNOWN
