"""Texts about the deaths of processes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from scaler.executors.processes.pool.deaths import (
    OutOfMemoryKills,
    how_it_ended,
    is_exiting,
    was_out_of_memory,
    why_it_ended,
)


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [(0, "exit code 0"), (7, "exit code 7"), (-9, "signal SIGKILL"), (-99, "signal 99")],
)
def test_exit_codes_are_named(exit_code: int, text: str) -> None:
    assert how_it_ended(exit_code) == text


@pytest.mark.parametrize(
    ("exit_code", "killed_because", "is_memory_short", "text"),
    [
        (-9, "it took too long", True, "it took too long (signal SIGKILL)"),
        (-9, "", True, "signal SIGKILL, out of memory: the kernel ended it; it had 290 MB at most"),
        (-9, "", False, "SIGKILL, which was not sent by this cluster: perhaps out of memory; it had 290 MB at most"),
        (-11, "", True, "SIGSEGV: compiled code crashed; the standard error of its cluster has the Python traceback"),
        (-15, "", True, "signal SIGTERM"),
        (3, "", True, "exit code 3"),
    ],
)
def test_reasons_name_the_cause(exit_code: int, killed_because: str, is_memory_short: bool, text: str) -> None:
    assert why_it_ended(exit_code, killed_because, 290_000_000, is_memory_short).endswith(text)
    assert was_out_of_memory(exit_code, killed_because, is_memory_short) is (", out of memory" in text)


@pytest.mark.processes
def test_a_process_that_is_exiting_is_recognised() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    assert not is_exiting(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_exiting(process.pid)
    assert process.wait() == -signal.SIGKILL
    assert is_exiting(process.pid)


@pytest.mark.parametrize(
    ("membership", "file", "text"),
    [
        ("0::/a", "sys/fs/cgroup/a/memory.events", "low 0\noom 5\noom_kill {}\noom_group_kill 9\n"),
        ("8:memory:/a", "sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"),
    ],
    ids=["version 2", "version 1"],
)
def test_kills_by_the_systems_out_of_memory_killer_are_counted(
    tmp_path: Path, membership: str, file: str, text: str
) -> None:
    for path, content in (("proc/self/cgroup", membership), (file, text.format(2))):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(content)
    kills = OutOfMemoryKills(tmp_path)
    assert not kills.has_risen()
    (tmp_path / file).write_text(text.format(3))
    assert kills.has_risen()
    assert not kills.has_risen()
