"""Exports of jobs: how each kind of value is written, and that an incomplete file never has the final name."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from scaler.cli.export import CsvTable, ExportFile, JsonLines, PlainValues
from scaler.config import ConfigError


@dataclass
class Point:
    x: int
    y: float


class Colour(Enum):
    RED = "red"


class Bad:
    def __repr__(self) -> str:
        raise SystemExit


@dataclass
class Broken:
    x: int

    def __getattribute__(self, name: str) -> Any:
        if name == "x":
            raise ZeroDivisionError
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return "broken"


class Naughty(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise ZeroDivisionError


Named = namedtuple("Named", "a b")  # noqa: PYI024 - both kinds
ITSELF: list[Any] = []
ITSELF.append(ITSELF)
PLAIN = [
    (1, 1), (2.5, 2.5), ("a\n\u65e5", "a\n\u65e5"), (None, None), (True, True), (2**70, 2**70),
    ([1, (2, 3)], [1, [2, 3]]), ({"a": {"b": 1}, 5: 6}, {"a": {"b": 1}, "5": 6}), ({1}, [1]),
    (np.float64(1.5), 1.5), (np.int8(3), 3), (np.bool_(True), True), (np.arange(3), [0, 1, 2]),
    (np.datetime64("2026-01-02"), "2026-01-02"), (date(2026, 1, 2), "2026-01-02"),
    (datetime(2026, 1, 2, tzinfo=timezone.utc), "2026-01-02T00:00:00+00:00"), (Decimal("1.10"), "1.10"),
    (PurePosixPath("/a"), "/a"), (UUID(int=1), str(UUID(int=1))), (Colour.RED, "red"),
    (Point(1, 2.0), {"x": 1, "y": 2.0}), (Named(1, 2), [1, 2]), ("\ud800", "\ud800"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=lambda value: type(value).__name__)
def test_values_become_json(value: Any, plain: Any) -> None:
    values = PlainValues()
    assert json.loads(values.text_of([value])) == [plain]
    assert json.loads(values.text_of([value, float("nan")])) == [plain, None], "also beside a value that is not plain"
    assert (values.n_reprs, values.n_not_finite) == (0, 1)


@pytest.mark.parametrize(
    ("value", "n_reprs", "n_not_finite"),
    [
        (b"x", 1, 0), (object, 1, 0), ({(1, 2): 3}, 1, 0), (Bad(), 1, 0), (1j, 1, 0), (np.longdouble(1), 1, 0),
        (ITSELF, 1, 0), (Broken(1), 1, 0), (Naughty({"a": 1}), 1, 0),
        ([float("inf"), {"a": float("-inf")}, b""], 1, 2), (np.array([np.nan, 1.0]), 0, 1),
    ],
)  # fmt: skip
def test_what_json_cannot_represent_is_counted(value: Any, n_reprs: int, n_not_finite: int) -> None:
    values = PlainValues()
    text = values.text_of(value)
    json.loads(text, parse_constant=pytest.fail)
    assert (values.n_reprs, values.n_not_finite) == (n_reprs, n_not_finite)
    assert text.count("__repr__") == n_reprs
    assert text.count("null") == n_not_finite


def table_of(*rows: Any) -> list[list[str]]:
    file = io.StringIO()
    table = CsvTable(file, PlainValues(), next((value for value in rows if not isinstance(value, ValueError)), None))
    for row, value in enumerate(rows):
        failed = isinstance(value, ValueError)
        table.write(row, "failed" if failed else "done", None if failed else value, str(value) if failed else "")
    return list(csv.reader(io.StringIO(file.getvalue())))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([1.5, 'a,\n"b"', None], ["row,status,error,value", "0,done,,1.5", '1,done,,a,\n"b"', "2,done,,"]),
        ([float("nan"), [1, 2], b"x"], ["row,status,error,value", "0,done,,nan", "1,done,,[1, 2]", "2,done,,b'x'"]),
        (
            [np.float32("nan"), np.float64(2), np.bool_(True)],
            ["row,status,error,value", "0,done,,nan", "1,done,,2.0", "2,done,,True"],
        ),
        (
            [{"a": Bad}, 2],
            ["row,status,error,a,value", "0,done,,<class 'tests.unit.cli.test_export.Bad'>,", "1,done,,,2"],
        ),
        ([date(2026, 1, 2), {1}], ["row,status,error,value", "0,done,,2026-01-02", "1,done,,[1]"]),
        (
            [ValueError("bad"), {"a": 1, "b": [2]}, {"b": None, "c": 3}, 7],
            ["row,status,error,a,b,value", "0,failed,bad,,,", "1,done,,1,[2],", '2,done,,,,{"c": 3}', "3,done,,,,7"],
        ),
        ([Point(1, 2.0)], ["row,status,error,x,y,value", "0,done,,1,2.0,"]),
        ([Named(1, 2)], ["row,status,error,a,b,value", "0,done,,1,2,"]),
        ([(1, 2), (3,)], ["row,status,error,0,1,value", "0,done,,1,2,", "1,done,,3,,"]),
        ([{"row": 1}], ["row,status,error,value", '0,done,,{"row": 1}']),
    ],
)
def test_the_keys_of_the_first_value_are_the_columns_of_a_table(rows: list[Any], expected: list[str]) -> None:
    assert [",".join(line) for line in table_of(*rows)] == expected


def test_a_line_of_json_has_number_status_and_value_or_error() -> None:
    file = io.StringIO()
    lines = JsonLines(file, PlainValues(), None)
    lines.write(0, "done", None, "")
    lines.write(1, "failed", None, 'a "b"\n')
    assert [json.loads(line) for line in file.getvalue().splitlines()] == [
        {"row": 0, "status": "done", "value": None},
        {"row": 1, "status": "failed", "error": 'a "b"\n'},
    ]


def test_a_file_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with ExportFile.of(str(path), None, replaces=False).open() as file:
        file.write("\ud800 ")
        assert [each.name.partition("part-")[0] for each in tmp_path.iterdir()] == [".rows.csv."]
    assert path.read_bytes() == b"\\ud800 "
    with pytest.raises(ConfigError, match=r"rows.csv exists: take another name, or replace it with --force"):
        ExportFile.of(str(path), None, replaces=False)
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    with pytest.raises(UnicodeDecodeError), ExportFile.of(str(link), None, replaces=True).open() as file:
        file.write("half of it" + b"\xff".decode())
    assert path.read_bytes() == b"\\ud800 ", "the old one stays"
    with ExportFile.of(str(link), None, replaces=True).open() as file:
        file.write("new")
    assert (path.read_text(), link.is_symlink()) == ("new", True)
    assert {each.name for each in tmp_path.iterdir()} == {"rows.csv", "link.csv"}


IS_ENDED = """
import os, signal, sys
from scaler.cli.export import ExportFile
signal.signal(int(sys.argv[2]), signal.SIG_DFL)  # it may be ignored where the tests run, as under nohup
with ExportFile.of(sys.argv[1], None, replaces=False).open() as file:
    file.write("half of it")
    assert os.listdir(".")
    os.kill(os.getpid(), int(sys.argv[2]))
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_export_ended_by_a_signal_leaves_no_file(tmp_path: Path, number: int) -> None:
    line = [sys.executable, "-c", IS_ENDED, "a.csv", str(int(number))]
    assert subprocess.run(line, cwd=tmp_path, check=False, timeout=60).returncode == 128 + number
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("/no/such/a.csv", None, "a.csv cannot be written: there is no folder /no/such"),
        ("rows.txt", None, "ends neither in .jsonl nor in .csv"),
        ("/dev/null", "csv", "is not a file"),
        ("", None, "ends"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused(name: str, kind: str | None, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ExportFile.of(name, kind, replaces=True)
    assert ExportFile.of("-", None, replaces=False) == ExportFile(None, "jsonl")
    assert ExportFile.of("a.CSV", None, replaces=False).kind == "csv"
