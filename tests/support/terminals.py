"""A pseudo-terminal for programs and code under test, and what a person would see on it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Self


class Terminal:
    """A terminal whose output is recorded."""

    def __init__(self, columns: int = 100) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.output()
        os.close(self._master)

    def _read(self) -> None:
        try:
            while chunk := os.read(self._master, 65536):
                self._kept += chunk
        except OSError:  # the other end is closed
            return

    def output_so_far(self) -> str:
        return self._kept.decode(errors="ignore")

    def output(self) -> str:
        if not self.stream.closed:
            self.stream.close()
        self._thread.join(10)
        return self._kept.decode()


def states_of(line: str) -> list[str]:
    """Return the states that a repeatedly written line has shown, in order."""
    return [state.rstrip() for state in line.split("\r") if state.strip()]
