"""A type checker of the user's sees what is wrong with a call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """\
from scaler import Client, ScalerFuture, TaskOptions

client = Client("tcp://localhost:2345")
future: ScalerFuture = client.options(TaskOptions(name="n"), priority=1, profiling=True).submit(abs, -1)
client.options(priority="x")
client.options(name=1)
TaskOptions(profiling="yes")
client.options(nobody_knows=1)
"""
WRONG_LINES = [5, 6, 7, 8]


def test_options_of_the_wrong_type_are_seen(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", tmp_path / "program.py"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    lines = [line.split(":") for line in process.stdout.splitlines() if ": error:" in line]
    assert [int(line[1]) for line in lines] == WRONG_LINES, process.stdout + process.stderr
