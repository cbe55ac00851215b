"""Parts of a node: what they are started with, and what other processes may see of them."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.process import strays
from scaler.process.interpreter import command, modules_line, no_collections, start_part

PART = """\
import gc, json, os, socket, sys
from scaler.process.interpreter import part_of_node

def main():
    descriptor, settings = part_of_node()
    found = {"settings": settings, "path": sys.path, "variables": dict(os.environ)}
    found["session"], found["collects_garbage"] = os.getsid(0) == os.getpid(), gc.isenabled()
    with socket.socket(fileno=descriptor) as connection:
        connection.sendall(json.dumps(found).encode())
"""


@pytest.mark.processes
@pytest.mark.parametrize("is_session", [False, True])
def test_a_part_gets_its_settings_and_the_module_path_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_session: bool
) -> None:
    (tmp_path / "part_of_test.py").write_text(PART)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(strays.MARK, "17")
    secret = "s" * 300_000
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = start_part("part_of_test", secret, theirs.fileno(), {"SOME_VARIABLE": "1"}, is_session=is_session)
        assert process.pid in strays.own
        theirs.close()
        with ours.makefile("rb") as reader:
            found = json.loads(reader.read())
    strays.own.discard(process.pid)
    assert process.wait(10) == 0
    assert found["settings"] == secret
    assert found["collects_garbage"]
    assert found["path"] == sys.path
    assert found["session"] is is_session
    assert found["variables"]["SOME_VARIABLE"] == "1"
    assert strays.MARK not in found["variables"]
    assert secret not in str(process.args)


@pytest.mark.processes
def test_a_new_interpreter_has_the_flags_of_this_one() -> None:
    program = "from scaler.process.interpreter import command; print(command('x'))"
    printed = subprocess.run([sys.executable, "-O", "-X", "dev", "-c", program], capture_output=True, check=True).stdout
    assert b"'-O'" in printed
    assert b"'-X', 'dev'" in printed


@pytest.mark.processes
def test_modules_of_the_working_directory_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('a module of the working directory was imported')")
    done = subprocess.run(
        [*command("scaler.version"), "x"], input=modules_line(), cwd=tmp_path, capture_output=True, check=False
    )
    assert b"cannot import name 'main'" in done.stderr


def test_garbage_collection_is_enabled_after_imports_that_succeed_or_fail() -> None:
    before = gc.get_freeze_count()
    with no_collections():
        assert not gc.isenabled()
        made = [[number] for number in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() - before >= len(made)
    gc.unfreeze()
    with pytest.raises(ImportError), no_collections():
        raise ImportError
    assert gc.isenabled()


def test_a_scheduler_loads_neither_pickling_nor_settings_of_other_processes() -> None:
    program = "import scaler.cluster.child, scaler.scheduler.scheduler, sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "scaler.actors.tree" in loaded
    assert not loaded & {"cloudpickle", "psutil", "scaler.settings.cluster", "scaler.pickling.shipped_modules"}


def test_a_client_does_not_load_jobs() -> None:
    program = "import scaler.cluster.combo, scaler.client.client, sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"sqlite3", "scaler.jobs.record", "scaler.client.jobs.job"}
