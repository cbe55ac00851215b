"""Standard streams: closed ones are opened on the null device, and open ones stay unchanged."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_script, without_streams

STREAMS = ("<&-", ">&-", "2>&-")


@pytest.mark.processes
@pytest.mark.parametrize(
    "closed", [each for count in (1, 2, 3) for each in itertools.combinations(STREAMS, count)], ids=" ".join
)
def test_closed_streams_become_the_null_device(closed: tuple[str, ...], tmp_path: Path) -> None:
    program = """
import sys, os, json, pathlib
sys.modules["scaler"] = type(sys)("scaler")
sys.modules["scaler"].__path__ = ["scaler"]
from scaler.process.standard_streams import open_standard_streams
before = sorted(os.listdir("/proc/self/fd"))
open_standard_streams()
streams = [each.fileno() for each in (sys.stdin, sys.stdout, sys.stderr)]
print("is written nowhere", flush=True)
pathlib.Path(sys.argv[1]).write_text(json.dumps([streams, [os.readlink(f"/proc/self/fd/{n}") for n in range(3)]]))
"""
    note, out = tmp_path / "note", tmp_path / "out"
    with out.open("w") as file:
        process = without_streams(
            sys.executable, "-c", program, str(note), closed=" ".join(closed), stdin=file, stdout=file, stderr=file
        )
        assert process.wait(20) == 0, out.read_text()
    streams, links = json.loads(note.read_text())
    assert streams == [0, 1, 2]
    assert links == ["/dev/null" if stream in closed else str(out) for stream in STREAMS]


@pytest.mark.processes
def test_the_package_opens_closed_standard_streams_first() -> None:
    """Other imports open folders, which would get the numbers of the closed streams."""
    program = "import os; [os.close(n) for n in range(3)]; import scaler; os._exit(len(set(map(os.readlink, P))))"
    process = run_script(program.replace("P", "[f'/proc/self/fd/{n}' for n in range(3)]"))
    assert process.returncode == 1
