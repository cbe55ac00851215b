"""What others on the machine can reach, and what they cannot."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import command, descendants, free_address

PROGRAM = "from scaler import Client\nwith Client() as client:\n    print(client.submit(pow, 2, 5).result())\n"


def test_a_module_of_the_working_directory_is_not_taken_for_one_of_the_standard_library(tmp_path: Path) -> None:
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    folder = tmp_path / "here"
    folder.mkdir()
    for name in ("json", "socket", "struct"):
        (folder / f"{name}.py").write_text("raise SystemExit('a module of the working directory was imported')\n")
    done = subprocess.run([sys.executable, program], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("32\n", "", 0)


def test_a_scheduler_raises_its_limit_of_open_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with command("scheduler", free_address(), preexec_fn=few_files) as running:
        running.wait_for("address tcp")
        assert psutil.Process(running.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (min(hard, 65_536), hard)


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_no_setting_is_in_the_command_line_of_any_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hush_module.py").write_text("def hush_start(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with SchedulerClusterCombo(
        2,
        preload=["hush_module"],
        initializer="hush_module:hush_start",
        logging_paths=[str(tmp_path / "hush.log")],
        scheduler_io_threads=2,
    ) as combo:
        with Client(combo.get_address()) as client:
            client.submit(pow, 2, 5).result()
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants()}
    assert len(lines) >= 5  # scheduler, agent, fork server, two processors
    for hidden in (b"hush", os.fsencode(tmp_path), combo.get_address().encode(), b"site-packages"):
        assert [line for line in lines.values() if hidden in line] == []
