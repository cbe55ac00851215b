"""Child processes: errors of programs that cannot be one, and the signals that children do not block."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler import Client
from scaler.cluster import child_process
from scaler.cluster.child_process import StartError

pytestmark = pytest.mark.processes

BLOCKED = {signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGURG}


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("exit 1", "ended with exit code 1 and did not run Python"),
        ("exec sleep 600", "did not run Python in time"),
        (None, "cannot be executed: No such file or directory"),
    ],
    ids=["ends", "stays", "missing"],
)
def test_a_sys_executable_that_is_no_python_is_an_error_that_names_it(
    script: str | None, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "uwsgi"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(child_process, "UNUSUAL_SECONDS", 1.0)
    before = psutil.Process().children()
    with pytest.raises(StartError, match=rf"the program in sys.executable, '{program}', {how}; set sys.executable to"):
        Client(n_workers=1)
    assert psutil.Process().children() == before


@pytest.mark.parametrize(
    ("attributes", "how"),
    [
        ({"executable": ""}, "'', is not set"),
        ({"executable": None}, "None, is not set"),
        ({"executable": "/opt/app", "frozen": True}, "'/opt/app', is this frozen program"),
    ],
)
def test_a_program_without_a_python_interpreter_starts_no_cluster(
    attributes: dict[str, Any], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in attributes.items():
        monkeypatch.setattr(sys, name, value, raising=False)
    with pytest.raises(StartError, match=how):
        Client(n_workers=1)


def blocked_here() -> set[int]:
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def blocked_in(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("SigBlk:")[2].split()[0], 16)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no file shows what a process blocks")
def test_child_processes_block_no_signals_although_their_parent_does() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    try:
        with Client(n_workers=1) as client:
            assert client.submit(blocked_here).result(60) == set()
            below = psutil.Process().children(recursive=True)
            assert len(below) >= 4  # scheduler, agent, fork server, processor
            assert [blocked_in(each.pid) for each in below] == [0] * len(below)
        assert blocked_here() >= BLOCKED
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
