"""Displays: where progress is shown: on a terminal, in a notebook cell, in a log, or as a bar of tqdm.

Made by `Progress` only. A closed stream raises no error, and no line is longer than the terminal is wide.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TextIO

TERMINAL_SECONDS = 0.1
NOTEBOOK_SECONDS = 0.25
LOG_SECONDS = 10.0
"""The interval between two lines of progress in a file or a pipe."""
COLUMNS = 80
"""The assumed width of a terminal whose width is unknown."""
BAR_WIDTH = 20


@dataclass(frozen=True)
class ProgressSummary:
    """The progress of a set of tasks at one moment.

    Attributes:
        done: the number of ended tasks, including failed ones.
        total: the number of tasks, or None if it is unknown.
        elapsed_seconds: how long the tasks have been watched.
        rate: the number of tasks that end per second.
        concern: why no task progresses, or how far the oldest task is; may be empty.
    """

    done: int
    total: int | None
    failed: int
    elapsed_seconds: float
    rate: float
    concern: str = ""

    @property
    def notes(self) -> list[str]:
        """The number of failed tasks as a text, if a task has failed, and the concern, if there is one."""
        failed = [f"{self.failed:,} failed"] if self.failed else []
        return [*failed, self.concern] if self.concern else failed

    def line(self) -> str:
        """Return the summary as one line of text."""
        parts = [f"{clock(self.elapsed_seconds)} elapsed", f"{_shown(self.rate)} tasks/s"]
        if self.total is not None and self.rate and self.done < self.total:
            parts.append(f"{clock((self.total - self.done) / self.rate)} left")
        return f"{self._counted()}  {', '.join([*parts, *self.notes])}"

    def _counted(self) -> str:
        if self.total is None:
            return f"{self.done:,} tasks"
        share = self.done / self.total if self.total else 1.0
        filled = int(share * BAR_WIDTH)
        return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {self.done:,}/{self.total:,} {int(share * 100):3}%"


def _shown(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Display(Protocol):
    """Shows summaries of the progress one after the other."""

    pause_seconds: float
    """the shortest time between two summaries"""

    def show(self, summary: ProgressSummary) -> None:
        """Show a summary."""

    def end(self, summary: ProgressSummary) -> None:
        """Show the last summary."""


def display_for(stream: TextIO, total: int | None) -> Display:
    """Return the display for the notebook in which this code runs; outside of notebooks, the display for `stream`."""
    shell = _notebook()
    if shell is None and not stream.isatty():
        return Log(stream)
    try:
        return Tqdm(stream, total)
    except ImportError:
        return Terminal(stream) if shell is None else Notebook()


def _notebook() -> Any:
    """Return the IPython shell of the notebook in which this code runs; None outside of notebooks."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if shell is not None and getattr(shell, "kernel", None) is not None else None


class Terminal:
    """Shows the progress on one line of a terminal, which is redrawn in place."""

    pause_seconds = TERMINAL_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def show(self, summary: ProgressSummary) -> None:
        self._draw(summary.line(), "")

    def end(self, summary: ProgressSummary) -> None:
        self._draw(summary.line(), "\n")

    def _draw(self, line: str, end: str) -> None:
        line = line[: self._columns() - 1]  # a full line would wrap, and stay
        with contextlib.suppress(OSError, ValueError):  # the stream is closed
            self._stream.write("\r" + line.ljust(self._width) + end)
            self._stream.flush()
        self._width = len(line)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or COLUMNS
        except (OSError, ValueError):
            return COLUMNS


class Log:
    """Writes a line every `LOG_SECONDS`, and a line at the end."""

    pause_seconds = LOG_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, summary: ProgressSummary) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(summary.line() + "\n")
            self._stream.flush()

    end = show


class Notebook:
    """Shows the progress as one output of a notebook cell, which is rewritten."""

    pause_seconds = NOTEBOOK_SECONDS

    def __init__(self) -> None:
        display: Any = import_module("IPython.display").display  # only a notebook has it
        self._handle = display({"text/plain": ""}, raw=True, display_id=True)

    def show(self, summary: ProgressSummary) -> None:
        self._handle.update({"text/plain": summary.line()}, raw=True)

    end = show


class Tqdm:
    """Shows the progress as a bar of tqdm, or of tqdm.notebook in a notebook. Raises `ImportError` without tqdm."""

    pause_seconds = TERMINAL_SECONDS

    def __init__(self, stream: TextIO, total: int | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns in notebooks without its widgets, and works without them
            from tqdm.auto import tqdm  # noqa: PLC0415 - imported only for a bar

        self._bar = tqdm(total=total, unit="task", file=stream, dynamic_ncols=True, mininterval=0)

    def show(self, summary: ProgressSummary) -> None:
        bar = self._bar
        bar.n, bar.total = summary.done, summary.total
        bar.set_postfix_str(", ".join(summary.notes), refresh=False)
        with contextlib.suppress(OSError, ValueError):
            bar.refresh()

    def end(self, summary: ProgressSummary) -> None:
        self.show(summary)
        with contextlib.suppress(OSError, ValueError):
            self._bar.close()
