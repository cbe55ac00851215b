"""Lines of source that only the client's program has, in the tracebacks of workers."""

from __future__ import annotations

import linecache
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.client.results.sources import with_sources

CELL = "/tmp/ipykernel_11/22.py"
SOURCE = ["def price(n):\n", "    return 1 / n\n"]


@pytest.fixture(autouse=True)
def _cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, CELL, (12, None, SOURCE, CELL))


def frame(file: str, line: int, function: str) -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line {line}, in {function}\nZeroDivisionError: oh\n'


def test_the_line_of_a_cell_is_there() -> None:
    assert with_sources(frame(CELL, 2, "price")).splitlines()[1:] == [
        f'  File "{CELL}", line 2, in price',
        "    return 1 / n",
        "ZeroDivisionError: oh",
    ]


def test_what_the_worker_has_shown_stays_as_it_is() -> None:
    shown = f'  File "{CELL}", line 2, in price\n    return 2 / n\n           ~~^~~\nZeroDivisionError: oh\n'
    assert with_sources(shown) == shown


def test_in_groups_and_rows_of_frames_each_line_has_its_place() -> None:
    text = f'  |   File "{CELL}", line 1, in a\n  |   File "{CELL}", line 2, in b\n  | ValueError: x\n'
    assert with_sources(text).splitlines() == [
        f'  |   File "{CELL}", line 1, in a',
        "  |     def price(n):",
        f'  |   File "{CELL}", line 2, in b',
        "  |     return 1 / n",
        "  | ValueError: x",
    ]


@pytest.mark.parametrize("file", ["/etc/passwd", "<string>", "<stdin>", "/no/such.py", "\0.py", CELL.upper()])
def test_what_is_not_known_or_no_source_is_left_out(file: str) -> None:
    assert with_sources(frame(file, 1, "f")) == frame(file, 1, "f")


def test_a_line_that_is_not_there_is_left_out() -> None:
    assert with_sources(frame(CELL, 3, "price")) == frame(CELL, 3, "price")


def test_a_script_that_only_this_machine_has(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("a = 1\nb = a / 0\n")
    assert "    b = a / 0\n" in with_sources(frame(str(script), 2, "<module>"))


COMMAND = """
from scaler.client.results.sources import with_sources
def price(n):
    return 1 / n
for function in "price", "other":
    print(with_sources(f'  File "<string>", line 4, in {function}\\nError\\n'))
"""


@pytest.mark.processes
def test_a_command_shows_its_lines_and_not_those_of_other_texts() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=60, check=True)
    expected = ['  File "<string>", line 4, in price', "    return 1 / n", "Error", ""]
    assert done.stdout.splitlines() == [*expected, '  File "<string>", line 4, in other', "Error", ""]
