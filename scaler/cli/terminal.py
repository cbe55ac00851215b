"""Terminal: prints lines and tables of commands, and ends commands.

Names, reasons and values come from other processes and files. Their control characters are escaped, including line
feeds, so that no printed line begins inside such a text.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import NamedTuple, NoReturn, TextIO

from scaler.texts import NAME_CHARACTERS, escaped, printable

GAP = "  "
"""The space between two columns of a table."""


def ends_in_order(main: Callable[[list[str] | None], None]) -> Callable[..., None]:
    """Wrap the `main` of a command: Ctrl-C ends the command by SIGINT, and a closed output ends it without an error.

    A shell ends a loop only if a command in the loop was killed by SIGINT, so an exit code is not enough.
    """

    @functools.wraps(main)
    def run(argv: list[str] | None = None) -> None:
        try:
            try:
                main(argv)
            finally:
                if sys.stdout is not None:  # as when it was closed before the start
                    sys.stdout.flush()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        except BrokenPipeError:  # such as `| head`
            drop_output()
            sys.exit(0)

    return run


@contextmanager
def interrupt_ends_process() -> Iterator[None]:
    """Let Ctrl-C end the process at once, by SIGINT, until the process handles that signal.

    A KeyboardInterrupt while a server starts may be lost in an import hook, or look like a failure of an actor.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, before)


def drop_output() -> None:
    """Discard unwritten output. Otherwise Python would try to write it again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class TableColumn(NamedTuple):
    """A column of a table; columns of numbers are right-aligned.

    Attributes:
        least: the width to which the column may be shortened, in cells; 0: the column is never shortened.
        rank: columns with a rank are left out if the table is too wide, the lowest rank first.
    """

    title: str
    is_number: bool = False
    least: int = 0
    rank: int = 0


def say_table(columns: Sequence[TableColumn], lines: Iterable[Sequence[str]]) -> None:
    """Print rows under the titles of their columns.

    To fit a terminal, long texts are shortened, and then columns with a rank are left out. A pipe gets the whole table.
    """
    from scaler.monitor.top.text import CUT, cut, fit, width_of  # noqa: PLC0415 - few commands print a table

    table = [[each.title for each in columns], *([printable(text, NAME_CHARACTERS) for text in line] for line in lines)]
    widths = {at: max(width_of(line[at]) for line in table) for at in range(len(columns))}
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    most = get_terminal_size().columns if is_terminal else sys.maxsize
    widths = _fitting(columns, widths, most)
    mark = "\u2026" if "utf" in (getattr(sys.stdout, "encoding", None) or "").lower() else CUT
    for line in table:
        texts = (fit(line[at], width, columns[at].is_number, mark) for at, width in widths.items())
        text = GAP.join(texts).rstrip()
        say(cut(text, most, mark) if is_terminal else text)


def _fitting(columns: Sequence[TableColumn], widths: dict[int, int], most: int) -> dict[int, int]:
    """Return the widths of the columns that fit into `most` cells, by column number."""
    fitting = dict(widths)
    while sum(fitting.values()) + len(GAP) * (len(fitting) - 1) > most:
        spare = {at: width - columns[at].least for at, width in fitting.items() if columns[at].least}
        widest = max((at for at, cells in spare.items() if cells > 0), key=lambda at: fitting[at], default=None)
        if widest is not None:
            fitting[widest] -= 1
            continue
        ranked = [at for at in fitting if columns[at].rank]
        if not ranked:
            break
        left_out = min(ranked, key=lambda at: columns[at].rank)
        widths = {at: width for at, width in widths.items() if at != left_out}
        fitting = dict(widths)
    return fitting


def say(line: object, stream: TextIO | None = None, *, flush: bool = False) -> None:
    """Print one line. Characters that are not printable are escaped, including line feeds."""
    print(escaped(str(line)), file=stream or sys.stdout, flush=flush)


def say_lines(text: str) -> None:
    """Print a text of several lines, and escape the characters of each line that are not printable."""
    for line in text.split("\n"):
        say(line)


def fail(command: str, error: object) -> NoReturn:
    """End a command with one line about an error and exit code 1."""
    sys.exit(escaped(f"{command}: {error}"))
