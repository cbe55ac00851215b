"""Files: raises the limit of open files, warns when nearly all files are open, and then stops accepting connections."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Sequence
from pathlib import Path

from scaler.config import ConfigError

MANY_FILES = 65_536

RESERVE = 0.1
"""Free files are scarce if they are less than this part (from 0 to 1) of the limit of open files."""
RESERVE_LEAST = 256
"""Free files are also scarce if they are fewer than this number and fewer than a quarter of the limit."""


def allow_many_files(what: str, least: int) -> None:
    """Raise the soft limit of open files of this process and of its children.

    Outside of the main thread the limit is only checked: a user's program sets its own limits.

    Args:
        what: the name of this process in the error message.
        least: the number of files that this process needs at its start.

    Raises:
        ConfigError: if the limit is lower than `least`.
    """
    with contextlib.suppress(ValueError, OSError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
        if soft < most and threading.current_thread() is threading.main_thread():
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit < least:
        raise ConfigError(
            f"the limit of open files is {limit}, and {what} needs at least {least}, and one more for each connection: "
            "raise it (ulimit -n 1024, or LimitNOFILE= of systemd)"
        )


class OpenFiles:
    """Checks, with two system calls, whether nearly all files are in use. Each shortage is reported once."""

    def __init__(self) -> None:
        self.are_scarce = False

    def warning(self) -> str:
        """Return a sentence if few files are free and enough were free at the last check; else ""."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        reserve = max(int(RESERVE * limit), min(RESERVE_LEAST, limit // 4))
        was_scarce, self.are_scarce = self.are_scarce, _lowest_free(limit) >= limit - reserve
        if was_scarce or not self.are_scarce:
            return ""
        return (
            f"nearly all of the {limit} files that this process may open are in use: soon it can accept no connection; "
            f"raise the hard limit (ulimit -Hn, or LimitNOFILE= of systemd)"
        )


def _lowest_free(limit: int) -> int:
    """Return the lowest free descriptor, which the system gives to the next file; `limit` if no descriptor is free."""
    try:
        descriptor = os.dup(0)
    except OSError:
        return limit
    os.close(descriptor)
    return descriptor


class SocketFiles:
    """The files of the Unix sockets of one process. They are renamed while nearly no file can be opened.

    libzmq ends the process when it cannot accept a connection. A socket keeps listening when its file is renamed, but
    new peers do not find it, and retry. On TCP, connections wait in the backlog instead.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._are_shut = False

    def shut(self) -> None:
        """Stop accepting new connections. Existing connections are kept."""
        if not self._are_shut:
            self._are_shut = True
            for file in self._files:
                with contextlib.suppress(OSError):  # its folder may belong to another user
                    file.rename(_aside(file))

    def open(self) -> None:
        """Accept connections again."""
        if self._are_shut:
            self._are_shut = False
            for file in self._files:
                with contextlib.suppress(OSError):  # its folder may belong to another user
                    if not file.exists():
                        _aside(file).rename(file)


def _aside(file: Path) -> Path:
    return file.with_name(f"{file.name}.shut")
