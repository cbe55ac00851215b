"""Traces of a real cluster, by the client and by the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, ConfigError, StartError
from scaler.transport.binding import name_of_user
from tests.support.processes import alive, wait_until


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def drawn(path: Path, phase: str) -> list[dict[str, Any]]:
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event["ph"] == phase]


@pytest.mark.more
def test_a_block_is_recorded_with_its_graph(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with client.trace(path):
        client.map(nap, [(0.05,)] * 10)
        client.get({"a": (nap, 0.3), "b": (nap, 0.3), "c": (max, "a", "b")}, ["c"])
    runs = [event for event in drawn(path, "X") if event["name"] in ("nap", "a", "b")]
    assert len(runs) == 12
    assert {event["args"]["state"] for event in runs} == {"success"}
    assert len({event["tid"] for event in runs}) >= 2
    assert sum(event["dur"] for event in runs) >= 10 * 50_000 + 2 * 300_000
    assert json.loads(path.read_text())["otherData"]["tasks left out"] == 0


def through_a_task(seconds: float) -> float:
    with Client() as client:
        return client.submit(nap, seconds).result()


def test_the_command_records_some_seconds_and_whose_they_were(address: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    command = [sys.executable, "-m", "scaler.cli.top", address, "--trace", str(path), "--seconds", "2"]
    with (
        Client(address, name="night run") as client,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as recording,
    ):
        while recording.poll() is None:  # whenever it begins, there are some
            assert client.map(nap, [(0.05,)] * 4) == [0.05] * 4
            assert client.submit(through_a_task, 0.05).result() == 0.05
        assert recording.stdout is not None
        assert f"tasks are in {path}" in recording.stdout.read()
    assert recording.returncode == 0
    runs = drawn(path, "X")
    assert {run["name"] for run in runs} == {"nap", "through_a_task"}
    assert {run["args"]["client"].partition(",")[0] for run in runs} == {"night run"}
    assert {run["args"]["owner"] for run in runs} == {name_of_user(os.geteuid())}


def test_a_trace_that_cannot_be_recorded_raises_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(processes=False) as client, pytest.raises(ConfigError, match="processes=False"), client.trace("t"):
        pass
    monkeypatch.setattr("scaler.cluster.recorder.START_SECONDS", 0.5)
    with (
        Client("tcp://127.0.0.1:1") as client,
        pytest.raises(StartError, match="the trace cannot start"),
        client.trace(tmp_path / "t"),
    ):
        pass


PROGRAM = """
import sys, time
import psutil
from scaler import Client
with Client(sys.argv[1]) as client, client.trace(sys.argv[2]):
    print(*(child.pid for child in psutil.Process().children()), flush=True)
    time.sleep(60)
"""


def test_a_recording_ends_with_the_program_that_wanted_it(address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, address, str(tmp_path / "run.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        recorders = [int(pid) for pid in program.stdout.readline().split()]
        program.kill()
    assert len(recorders) == 1
    wait_until(lambda: not alive(recorders[0]), "the recorder has ended")
