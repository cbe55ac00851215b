"""Lines of commands: what they print, and the errors with which they end.

Used by all commands. Names, reasons and values come from other processes and from files. Must never: print a control
character, or a line that begins inside of such a text.
"""

from __future__ import annotations

import sys
from typing import NoReturn, TextIO

from scaler.texts import escaped


def say(line: object, stream: TextIO | None = None, *, flush: bool = False) -> None:
    """Print one line: what is not printable is escaped, the ends of lines inside of it too."""
    print(escaped(str(line)), file=stream or sys.stdout, flush=flush)


def say_lines(text: str) -> None:
    """Print a text of several lines, none of which begins inside of a text of others."""
    for line in text.split("\n"):
        say(line)


def fail(command: str, error: object) -> NoReturn:
    """End a command with one line about an error, and exit code 1."""
    sys.exit(escaped(f"{command}: {error}"))
