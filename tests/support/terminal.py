"""A pseudo-terminal with a program in it: what it shows, what was written to it, and its state after the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pyte

from tests.support.processes import PATIENCE_SECONDS, REPOSITORY, wait_until

_UPDATE = 2026
"""The private mode of a terminal for atomic frames: changes while it is set are shown when it is reset."""
_DOES_UPDATES, _YES = b"\x1b[?%d$p" % _UPDATE, f"\x1b[?{_UPDATE};2$y"
_ALL = 2

ENTER, ESCAPE, UP, DOWN, CTRL_C, CTRL_Z = "\r", "\x1b", "\x1b[A", "\x1b[B", "\x03", "\x1a"


class _Screen(pyte.Screen):
    """The visible screen, and whether it is complete."""

    is_cut = False
    """whether its size has changed since all of it was drawn"""

    @property
    def is_whole(self) -> bool:
        return not self.is_cut and _UPDATE << 5 not in self.mode  # pyte keeps private modes shifted

    def cut(self, width: int, height: int) -> None:
        self.resize(height, width)
        self.reset()
        self.is_cut = True

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        super().erase_in_display(how, *args, **kwargs)
        self.is_cut = self.is_cut and how != _ALL


class Terminal:
    """Runs a command as the session leader of a new terminal, with sizes in cells. Reads only whole frames."""

    def __init__(self, *command: str, width: int = 80, height: int = 24, env: dict[str, str] | None = None) -> None:
        self.screen = _Screen(width, height)
        self.screen.write_process_input = self.press  # answers to questions about the terminal
        self._stream = pyte.ByteStream(self.screen)
        self._fed = threading.Condition()
        self.written = b""
        self._heard = 0
        self._master, self._slave = pty.openpty()
        self._set_size(width, height)
        self.settings_before = self.settings
        self.process = subprocess.Popen(
            command,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call, no lock
            cwd=REPOSITORY,
            env={**os.environ, "TERM": "xterm-256color", "TZ": "UTC", "PYTHONIOENCODING": "utf-8", **(env or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            with self._fed:
                self.written += data
                self._answer()
                self._stream.feed(data)
                self._fed.notify_all()

    def _answer(self) -> None:
        """Answer the question whether the terminal supports updates before those that pyte knows."""
        while (place := self.written.find(_DOES_UPDATES, self._heard)) >= 0:
            self._heard = place + len(_DOES_UPDATES)
            self.press(_YES)

    def _set_size(self, width: int, height: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    @property
    def settings(self) -> list[Any]:
        """The settings that `stty -g` prints."""
        return termios.tcgetattr(self._slave)

    @property
    def lines(self) -> list[str]:
        """The lines of a whole frame. Waits for it while one is being written, or after a change of the size."""
        with self._fed:
            assert self._fed.wait_for(lambda: self.screen.is_whole, PATIENCE_SECONDS), "no frame is whole"
            return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        found = lambda: next((line for line in self.lines if text in line), None)  # noqa: E731
        try:
            return str(wait_until(found, text, seconds))
        except AssertionError:
            raise AssertionError(f"{text!r} is not on the screen:\n{self.text}") from None

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, width: int, height: int) -> None:
        with self._fed:
            self.screen.cut(width, height)
        self._set_size(width, height)
        self.process.send_signal(signal.SIGWINCH)

    def end(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def check_left_as_before(self) -> None:
        """Check that the terminal echoes again, shows its cursor, and shows its former screen."""
        assert self.settings == self.settings_before
        wait_until(lambda: self.written.rfind(b"\x1b[?1049l") > self.written.rfind(b"\x1b[?1049h"), "the usual screen")
        assert self.written.rfind(b"\x1b[?25h") > self.written.rfind(b"\x1b[?25l")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._slave)
        self._reader.join(5)
        os.close(self._master)


@contextlib.contextmanager
def terminal(*command: str, **options: Any) -> Iterator[Terminal]:
    """Run a command in a terminal for the length of a `with` block."""
    running = Terminal(*command, **options)
    try:
        yield running
    finally:
        running.close()
