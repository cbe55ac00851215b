"""Doors: the socket files at which others connect, out of their reach while nearly no file can be opened.

Used by the scheduler. libzmq ends the process when it cannot take a connection that came to a file ("Too many open
files"), and has no way to refuse one before. A socket listens on under any name of its file; under another one nobody
finds it, and who tries to connect tries again. Over TCP the connections wait, and nothing has to be done.

Must never: take the place of a file that somebody else has put there meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path


class Doors:
    """The socket files of one process, all open or all shut."""

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
