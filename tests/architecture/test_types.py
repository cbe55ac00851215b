"""Type checkers of users see what is wrong with a call, and which types come back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TYPED = Path(__file__).parents[1] / "support" / "typed"
RIGHT, WRONG = TYPED / "right.py", TYPED / "wrong.py"
WRONG_LINES = {
    number for number, line in enumerate(WRONG.read_text().splitlines(), start=1) if line.endswith("# wrong")
}


def checked(*arguments: str | Path) -> str:
    """Return what a checker says of both files."""
    command = [sys.executable, "-m", *map(str, arguments), str(RIGHT), str(WRONG)]
    process = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=100
    )
    assert process.returncode == 1, process.stdout + process.stderr
    return process.stdout


@pytest.mark.more
@pytest.mark.processes
def test_mypy_sees_all_that_is_wrong_and_nothing_else() -> None:
    said = checked("mypy", "--strict", "--no-error-summary", "--no-color-output")
    errors = [line.split(":", 2) for line in said.splitlines() if ": error:" in line]
    assert [line for line in errors if Path(line[0]).name == RIGHT.name] == []
    assert {int(line[1]) for line in errors} == WRONG_LINES, said


@pytest.mark.more
def test_pyright_sees_all_that_is_wrong_and_nothing_else() -> None:
    said = json.loads(checked("pyright", "--outputjson", "--pythonpath", sys.executable))
    errors = [each for each in said["generalDiagnostics"] if each["severity"] == "error"]
    assert [each["message"] for each in errors if Path(each["file"]).name == RIGHT.name] == []
    assert {each["range"]["start"]["line"] + 1 for each in errors} == WRONG_LINES, said
