"""Files: raises the limit of open files, says when it is nearly reached, and then keeps others from connecting. Each
connection and each large object takes one.
"""

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
"""Fewer files than this part of the limit are few."""
RESERVE_LEAST = 256
"""Or fewer than this, but no more than a quarter: so many may be opened at once before anybody looks again."""


def allow_many_files(what: str, least: int) -> None:
    """Raise the soft limit of open files of this process, and of those that it starts.

    Only in the main thread: otherwise this is a user's program, which decides for itself.

    Args:
        what: this process, in words.
        least: how many files it needs to begin with.

    Raises:
        ConfigError: if it may not have so many.
    """
    with contextlib.suppress(ValueError, OSError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
        if soft < most and threading.current_thread() is threading.main_thread():
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit < least:
        raise ConfigError(
            f"the limit of open files is {limit}, and {what} needs {least} at least, and more for each connection: "
            "raise it (ulimit -n 1024, or LimitNOFILE= of systemd)"
        )


class OpenFiles:
    """Says once, each time that it comes to that, that few more files can be opened. A look costs two system calls.

    Attributes:
        are_scarce: whether few were left at the last look.
    """

    def __init__(self) -> None:
        self.are_scarce = False

    def warning(self) -> str:
        """Return a sentence if few files are left, and enough were at the last look; else nothing."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        reserve = max(int(RESERVE * limit), min(RESERVE_LEAST, limit // 4))
        was_scarce, self.are_scarce = self.are_scarce, _lowest_free(limit) >= limit - reserve
        if was_scarce or not self.are_scarce:
            return ""
        return (
            f"nearly all of the {limit} files that this process may have open are open: soon nobody else can connect; "
            f"raise the hard limit (ulimit -Hn, or LimitNOFILE= of systemd)"
        )


def _lowest_free(limit: int) -> int:
    """Return the number that the next file gets: the system takes the lowest free one. The limit: there is none."""
    try:
        descriptor = os.dup(0)
    except OSError:
        return limit
    os.close(descriptor)
    return descriptor


class SocketFiles:
    """The socket files of one process, all open or all shut: out of reach while nearly no file can be opened.

    libzmq ends the process when it cannot take a connection that came to a file ("Too many open files"), and has no way
    to refuse one before. A socket listens on under any name of its file; under another one nobody finds it, and who
    tries to connect tries again. Over TCP the connections wait, and nothing has to be done.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._are_shut = False

    def shut(self) -> None:
        """Let nobody else connect. The connections that stand stay."""
        if not self._are_shut:
            self._are_shut = True
            for file in self._files:
                with contextlib.suppress(OSError):  # its folder may belong to somebody else
                    file.rename(_aside(file))

    def open(self) -> None:
        """Let others connect again."""
        if self._are_shut:
            self._are_shut = False
            for file in self._files:
                with contextlib.suppress(OSError):  # as above
                    if not file.exists():
                        _aside(file).rename(file)


def _aside(file: Path) -> Path:
    return file.with_name(f"{file.name}.shut")
