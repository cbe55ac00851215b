"""Sources: adds to the traceback of a worker the lines of source that only the client's program has.

Functions of notebooks, of the interactive prompt, of `python -c` and of a script on the client's machine travel without
their source, so a worker cannot show their lines. Used where failures are read, in the thread of the user. Must never:
raise, or read what is not source.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

_FRAME_WITHOUT_SOURCE = re.compile(r'^([ |]*)File "(.+)", line (\d+), in (.+)\n(?!\1  )', re.MULTILINE)
_LONGEST = 500
_COMMAND = "<string>"
"""What Python calls the file of `python -c`."""


def with_sources(traceback: str) -> str:
    """Return a traceback as text, completed with the lines of source that are known here."""
    return _FRAME_WITHOUT_SOURCE.sub(_with_line, traceback)


def _with_line(frame: re.Match[str]) -> str:
    lead, file, number, function = frame.groups()
    try:
        source = _line_of(file, int(number), function).strip()[:_LONGEST]
    except Exception:  # noqa: BLE001 - whatever linecache does with names and files that others have made up
        source = ""
    return f"{frame[0]}{lead}  {source}\n" if source else frame[0]


def _line_of(file: str, number: int, function: str) -> str:
    if file == _COMMAND:  # Python 3.13 has it in linecache, too; but so are texts of `exec` called
        source = _command()
        if any(code.co_name == function and number in _lines_of(code) for code in _codes_of(source)):
            return source.splitlines()[number - 1]
    elif file in linecache.cache or file.endswith(".py"):
        return linecache.getline(file, number)
    return ""


def _command() -> str:
    """Return the source of `python -c`; Python itself keeps it from 3.13 on."""
    arguments = sys.orig_argv
    return arguments[arguments.index("-c") + 1] if sys.argv[:1] == ["-c"] and "-c" in arguments else ""


@lru_cache(1)
def _codes_of(source: str) -> tuple[CodeType, ...]:
    return tuple(_within(compile(source, _COMMAND, "exec")))


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)


def _lines_of(code: CodeType) -> set[int | None]:
    return {line for _, _, line in code.co_lines()}
