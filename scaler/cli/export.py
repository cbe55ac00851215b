"""Export: writes the ended rows of a job into a file, as lines of JSON or as a CSV table.

Rows are read and written one by one. The file gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from numbers import Real
from operator import attrgetter, methodcaller
from pathlib import Path, PurePath
from typing import Any, TextIO
from uuid import UUID

from scaler.cli.terminal import say
from scaler.client.jobs.job import Job
from scaler.client.outcome import headline_of
from scaler.client.progress.bar import Progress
from scaler.config import ConfigError, whole_path
from scaler.texts import counted, safe_repr

STANDARD_OUTPUT = "-"
NO_VALUE = "__repr__"
"""The key of the JSON object that stands for a value which JSON cannot represent. The object has no other key."""
DEPTH_MOST = 50
"""The depth from which nested values are replaced by their `repr`."""
ROW, STATUS, ERROR, VALUE = "row", "status", "error", "value"

_CONVERSIONS: tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((date, time), methodcaller("isoformat")),
    ((Decimal, UUID, PurePath), str),
    ((Enum,), attrgetter("value")),
    ((set, frozenset), list),
)
"""Types of the standard library, and the function that converts values of these types."""


class PlainValues:
    """Converts values to values that JSON can represent, and counts the values that cannot be converted."""

    def __init__(self) -> None:
        self.n_reprs = 0
        """the number of values that were written as their `repr`"""
        self.n_not_finite = 0
        """the number of NaNs and infinities that were written as null"""
        self._encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=self._converted).encode

    def text_of(self, value: Any) -> str:
        """Return a value as JSON."""
        counts = self.n_reprs, self.n_not_finite
        for convert in (_unchanged, self.plain):  # the second one for NaN, other keys than text, and deep values
            try:
                return self._encode(convert(value))
            except Exception:  # noqa: BLE001 - the code of a user's class
                self.n_reprs, self.n_not_finite = counts
        return self._encode(self._repr(value))

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Return a value as a `None`, `bool`, `int`, `float` or `str`, or as lists and dicts of such values."""
        if value is None or isinstance(value, (str, int)):
            return value
        if isinstance(value, float):
            return value if isfinite(value) else self._null()
        if depth >= DEPTH_MOST:
            return self._repr(value)
        if isinstance(value, dict):
            has_keys = all(isinstance(key, (str, int)) for key in value)
            return {key: self.plain(each, depth + 1) for key, each in value.items()} if has_keys else self._repr(value)
        if isinstance(value, (list, tuple)):
            return [self.plain(each, depth + 1) for each in value]
        return self.plain(self._converted(value), depth + 1)

    def _converted(self, value: Any) -> Any:
        for types, convert in _CONVERSIONS:
            if isinstance(value, types):
                return convert(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _fields(value)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
            return value.tolist()
        return self._repr(value)

    def _null(self) -> None:
        self.n_not_finite += 1

    def _repr(self, value: Any) -> dict[str, str]:
        self.n_reprs += 1
        return {NO_VALUE: safe_repr(value)}


def _unchanged(value: Any) -> Any:
    return value


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name, None) for each in dataclasses.fields(value)}


def columns_of(value: Any) -> dict[str, Any] | None:
    """Return the parts of a table row by column name; None if the value is not a table row.

    Table rows are dicts with `str` keys, dataclasses, named tuples, and tuples, whose columns are numbered from 0.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        return dict(zip(map(str, names), value, strict=True))
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else None


class JsonLines:
    """A file with one JSON object for each row."""

    def __init__(self, file: TextIO, values: PlainValues, _first: Any) -> None:
        self._file, self._values = file, values

    def write(self, row: int, status: str, value: Any, error: str) -> None:
        key, text = (ERROR, json.dumps(error, ensure_ascii=False)) if error else (VALUE, self._values.text_of(value))
        self._file.write(f'{{"{ROW}": {row}, "{STATUS}": "{status}", "{key}": {text}}}\n')


class CsvTable:
    """A CSV table with number, status, error and value of each row.

    If the first value is a table row, each part of this value gets a column. Parts of later values that have no column
    go to the column `value`.
    """

    def __init__(self, file: TextIO, values: PlainValues, first: Any) -> None:
        names = columns_of(first) or {}
        self._columns = [] if {ROW, STATUS, ERROR, VALUE} & names.keys() else [*names]
        self._values = values
        self._write = csv.writer(file, lineterminator="\n").writerow
        self._write([ROW, STATUS, ERROR, *self._columns, VALUE])

    def write(self, row: int, status: str, value: Any, error: str) -> None:
        parts = (columns_of(value) if self._columns else None) or {}
        if parts:
            cells = [self._cell(parts.get(name)) for name in self._columns]
            rest = {name: part for name, part in parts.items() if name not in self._columns}
            self._write([row, status, error, *cells, self._values.text_of(rest) if rest else ""])
        else:
            self._write([row, status, error, *[""] * len(self._columns), self._cell(value)])

    def _cell(self, value: Any) -> Any:
        if value is None or isinstance(value, (str, Real)):
            return value
        text = self._values.text_of(value)
        plain = json.loads(text)
        if isinstance(plain, dict) and plain.keys() == {NO_VALUE}:
            return plain[NO_VALUE]
        return plain if isinstance(plain, (str, int, float)) else text


FORMATS: dict[str, type[JsonLines | CsvTable]] = {"jsonl": JsonLines, "csv": CsvTable}


@dataclass(frozen=True)
class ExportFile:
    """The destination of an export: a `path` (None: the standard output), and a `kind` among `FORMATS`."""

    path: Path | None
    kind: str

    @classmethod
    def of(cls, name: str, kind: str | None, *, replaces: bool) -> ExportFile:
        """Return the destination with this name; `-` means the standard output.

        Args:
            kind: the format; None: the format of the suffix of the name.
            replaces: whether an existing file may be replaced.

        Raises:
            ConfigError: if the format is unknown, the file cannot be written, or it exists and `replaces` is false.
        """
        if name == STANDARD_OUTPUT:
            return cls(None, kind or "jsonl")
        path = whole_path(name).resolve()
        kind = kind or path.suffix[1:].lower()
        if kind not in FORMATS:
            raise ConfigError(f"{name} ends neither in .jsonl nor in .csv: rename it, or give its format with --format")
        if path.exists() and not path.is_file():
            raise ConfigError(f"{name} is not a file; take another name, or - for the standard output")
        if path.exists() and not replaces:
            raise ConfigError(f"{name} exists: take another name, or replace it with --force")
        if not path.parent.is_dir():
            raise ConfigError(f"{name} cannot be written: there is no folder {path.parent}")
        return cls(path, kind)

    @contextlib.contextmanager
    def open(self) -> Iterator[TextIO]:
        """Open the destination. A file gets its name when it is complete; an incomplete file is removed."""
        if self.path is None:
            with contextlib.suppress(AttributeError):  # a program may have replaced the standard output
                sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")  # type: ignore[union-attr]
            yield sys.stdout
            return
        part = self.path.with_name(f".{self.path.name}.part-{os.urandom(4).hex()}")
        try:
            _exit_on_termination()
            # A lone surrogate becomes an escape sequence of JSON.
            with part.open("x", encoding="utf-8", errors="backslashreplace", newline="") as file:
                yield file
            part.replace(self.path)
        except TimeoutError:
            raise  # an error of the scheduler
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror or error}") from None
        finally:
            part.unlink(missing_ok=True)


def _exit_on_termination() -> None:
    """Let SIGTERM, for instance from `timeout`, and SIGHUP raise `SystemExit`, which removes an unfinished file."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def export(job: Job, target: ExportFile) -> int:
    """Write the ended rows of a job. Return the exit code of the command: 1 if rows are open."""
    first = None
    if target.kind != "jsonl":
        first = next((value for _, _, value, error in job.read_ended() if error is None), None)
    values, counts = PlainValues(), dict.fromkeys(("done", "failed", "cancelled", "unreadable"), 0)
    with target.open() as file, _progress(job.progress().rows) as show:
        write = FORMATS[target.kind](file, values, first).write
        for n_rows, (row, is_done, value, error) in enumerate(job.read_ended(), 1):
            status = _status(is_done, error)
            write(row, status, value, "" if error is None else headline_of(error))
            counts[status] += 1
            show(n_rows, counts["failed"])
    found = job.progress()
    n_open = found.rows - sum(counts.values())
    _summarize(target, counts, values, n_open)
    if not found.all_rows_known:
        say("not all rows were submitted: run the program of the job again", sys.stderr)
    return int(n_open > 0 or not found.all_rows_known)


def _status(is_done: bool, error: BaseException | None) -> str:
    if is_done:
        return "done" if error is None else "unreadable"
    return "cancelled" if isinstance(error, CancelledError) else "failed"


@contextlib.contextmanager
def _progress(n_rows: int) -> Iterator[Callable[[int, int], None]]:
    """Return a function that shows the progress; it shows nothing if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _failed: None
        return
    progress, last = Progress(n_rows, sys.stderr), [0, 0]

    def show(done: int, failed: int) -> None:
        last[:] = done, failed
        progress.update(done, failed)

    try:
        yield show
    finally:
        progress.finish(*last)


def _summarize(target: ExportFile, counts: dict[str, int], values: PlainValues, n_open: int) -> None:
    """Print to standard error how many rows were written, how many are open, and how many values were replaced."""
    parts = [counted(sum(counts.values()), "row")]
    parts += [f"{number:,} {status}" for status, number in counts.items() if number and status != "done"]
    parts += [f"{n_open:,} open: export them when they have ended"] if n_open else []
    say(f"{target.path or 'standard output'}: {', '.join(parts)}", sys.stderr)
    if values.n_reprs:
        say(
            f"{counted(values.n_reprs, 'value')} cannot be represented in JSON: written as the text of repr()",
            sys.stderr,
        )
    if values.n_not_finite:
        say(f"{counted(values.n_not_finite, 'number')} (NaN, infinity) written as null", sys.stderr)
