"""Screen: writes the changes of each frame to a terminal in one write, and restores the terminal at the end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import blessed

from scaler.monitor.top.grid import PLAIN, Grid

_COLORS = frozenset({"red", "green", "yellow", "magenta"})
_DUMB = frozenset({"", "dumb", "unknown"})
"""Types of terminals that cannot show a screen. Blessed would treat them as an xterm."""
_SYNCHRONIZED_SECONDS = 1.0
"""The longest wait for a remote terminal to answer whether it supports synchronized output; most answer at once."""


def can_show(kind: str) -> bool:
    """Return whether a terminal of this type (TERM) can move its cursor and clear its screen."""
    return kind not in _DUMB


class Painter:
    """Turns frames into escape sequences of `terminal`; without `has_color`, only bold and reverse are used."""

    def __init__(self, terminal: blessed.Terminal, has_color: bool) -> None:
        self._terminal = terminal
        self._has_color = has_color
        self._styles: dict[str, str] = {PLAIN: ""}

    def paint(self, frame: Grid, before: Grid | None) -> str:
        """Return the sequences that replace the frame `before` (None: unknown) by `frame`; empty if both are equal."""
        if before is not None and (before.width, before.height) != (frame.width, frame.height):
            before = None
        normal = self._terminal.normal
        parts = [] if before is not None else [normal, self._terminal.clear]
        for run in frame.changes(before):
            style = self._style(run.style)
            parts += [self._terminal.move_yx(run.y, run.x), style, run.text, normal if style else ""]
        return "".join(parts)

    def _style(self, name: str) -> str:
        known = self._styles.get(name)
        if known is None:
            words = [word for word in name.split("_") if self._has_color or word not in _COLORS]
            known = self._styles[name] = "".join(str(getattr(self._terminal, word)) for word in words)
        return known


class Screen:
    """The terminal of the program: shows frames, and reads keys."""

    def __init__(self) -> None:
        with _without_variable("NO_COLOR") as no_color:  # blessed would then do without bold and reverse, too
            self.terminal = blessed.Terminal(stream=sys.__stdout__)
        has_color = not no_color and self.terminal.number_of_colors >= 8
        self._painter = Painter(self.terminal, has_color)
        self._shown: Grid | None = None
        self._begin = self._end = ""
        self._encoding = (getattr(sys.__stdout__, "encoding", "") or "ascii").lower()
        self.is_unicode = "utf" in self._encoding

    @property
    def keyboard(self) -> int:
        """The descriptor from which keys are read."""
        return sys.__stdin__.fileno() if sys.__stdin__ is not None else 0

    @property
    def size(self) -> tuple[int, int]:
        """The width and the height of the terminal, in cells."""
        return self.terminal.width, self.terminal.height

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Take over the terminal within a context."""
        terminal = self.terminal
        with _ignoring_broken_pipe(), terminal.fullscreen(), terminal.cbreak(), terminal.hidden_cursor():
            self._shown = None
            self._ask_for_synchronized_output()
            yield

    def _ask_for_synchronized_output(self) -> None:
        if self.terminal.does_synchronized_output(timeout=_SYNCHRONIZED_SECONDS):
            self._begin, self._end = "\x1b[?2026h", "\x1b[?2026l"

    def forget(self) -> None:
        """Let `show` write the whole next frame, because the screen may have changed."""
        self._shown = None

    def show(self, frame: Grid) -> None:
        """Show a frame: write its changes to the terminal."""
        text = self._painter.paint(frame, self._shown)
        self._shown = frame
        if text:
            self._write(f"{self._begin}{text}{self._end}")

    def _write(self, text: str) -> None:
        """Write a text in one system call, or in more if the terminal does not accept all bytes at once."""
        rest = memoryview(text.encode(self._encoding, "replace"))
        descriptor = self.terminal.stream.fileno()
        while rest:
            rest = rest[os.write(descriptor, rest) :]


@contextlib.contextmanager
def _without_variable(name: str) -> Iterator[str]:
    """Remove an environment variable within a context, and yield its value."""
    value = os.environ.pop(name, None)
    try:
        yield value or ""
    finally:
        if value is not None:
            os.environ[name] = value


@contextlib.contextmanager
def _ignoring_broken_pipe() -> Iterator[None]:
    """Ignore the error when a closed terminal cannot be restored."""
    with contextlib.suppress(BrokenPipeError):
        yield
