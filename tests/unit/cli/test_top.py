from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scaler.cli.top import main
from tests.support.monitored_stream import publishing
from tests.support.timing import at_best
from tests.unit.transport.test_lookup import UNKNOWN


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/monitor"


def run(*arguments: str) -> object:
    """Return the exit code of the command, or its error message (exit code 1)."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return end.value.code


def test_scaler_top_writes_one_plain_page_to_a_pipe(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with publishing(address):
        assert run(address) == 0
    page = capsys.readouterr().out
    assert "Total 16 worker(s), 16 busy" in page
    assert "rome10:3" in page  # all workers, however many
    assert "\x1b" not in page
    assert "q quit" not in page


@pytest.mark.processes
def test_scaler_top_with_a_closed_output_pipe_ends_without_an_error(address: str) -> None:
    read, write = os.pipe()
    os.close(read)
    with publishing(address):
        command = [sys.executable, "-m", "scaler.cli.top", address, "--once"]
        ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_the_address_may_be_read_from_the_environment(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)
    assert run("--once") == 2
    assert "is required: give it as an argument, as SCALER_ADDRESS" in capsys.readouterr().err
    monkeypatch.setenv("SCALER_ADDRESS", address)
    with publishing(address):
        assert run("--once") == 0


def test_scaler_top_prints_json_for_programs(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with publishing(address):
        assert run(address, "--once", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["workers_total"], len(said["workers"]), said["tasks"]["canceled"]) == (16, 16, 40)


def test_scaler_top_without_news_fails_with_advice(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    def ask() -> float:
        began = time.monotonic()
        run(address, "--once", "--json", "-t", "0.2")
        return time.monotonic() - began

    assert at_best(ask, 2.5) < 2.5
    said = str(run(address, "--once", "--json", "-t", "0.2"))
    assert said.startswith(f"scaler_top: no message from {address} for 0.2 s.")
    assert "Is scaler_scheduler running?" in said
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("how", [["--once"], ["--trace", "unwritten.json"]])
def test_scaler_top_reports_an_unknown_host_name_at_once(how: list[str]) -> None:
    seconds = ["--seconds", "3600"] if "--trace" in how else ["-t", "3600"]  # longer than this test may take
    said = str(run(f"tcp://{UNKNOWN}:6000", *how, *seconds))
    assert said.startswith(f"scaler_top: no message from tcp://{UNKNOWN}:6000.")
    assert f"this machine cannot resolve the host name {UNKNOWN!r}" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "a good one looks like"),
        (["inproc://x"], "between processes"),
        (["ipc:///x", "-t", "no"], "number of seconds"),
        (["ipc:///x", "-t", "-1"], "number of seconds"),
        (["ipc:///x", "--json"], "--once"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert sentence in capsys.readouterr().err
