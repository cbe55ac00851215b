"""What real user code does to the process that runs it, seen by a client."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scaler import Client
from tests.support.processes import scheduler, without_streams


def fork_and_come_back(number: int) -> int:
    """The usual recipe of a daemon: the child leaves by `sys.exit`."""
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
    return number


def test_tasks_that_fork_have_their_own_results_and_leave_nothing_behind(client: Client) -> None:
    futures = [client.submit(fork_and_come_back, number) for number in range(60)]
    assert [future.result(60) for future in futures] == list(range(60))
    assert len(set(client.map(lambda _: os.getpid(), [(number,) for number in range(50)]))) <= 2


def use_the_streams() -> tuple[str, int]:
    """Read, print, and have a child that inherits the streams."""
    faulthandler.enable()
    print("printed")
    end = "nothing was raised"
    try:
        input()
    except EOFError:
        end = "end of file"
    return end, subprocess.run(["cat"], check=False).returncode


def test_cluster_without_standard_streams_runs_tasks() -> None:
    with scheduler() as (address, _), Client(address) as client:
        cluster = without_streams(sys.executable, "-m", "scaler.cli.cluster", address, "-n", "1")
        try:
            assert client.submit(use_the_streams).result(60) == ("end of file", 0)
        finally:
            cluster.terminate()
            assert cluster.wait(20) == 0


def test_program_without_standard_streams_has_its_own_cluster(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from scaler import Client\n"
        "from tests.integration.test_user_code import use_the_streams\n"
        "pathlib.Path(sys.argv[1]).write_text(repr(Client().submit(use_the_streams).result(60)))"
    )
    assert without_streams(sys.executable, "-c", program, str(tmp_path / "note")).wait(60) == 0
    assert (tmp_path / "note").read_text() == "('end of file', 0)"


def inherited(data: bytes) -> str:
    """Start a program that gets all inheritable descriptors, as `os.posix_spawn` and C code do; say which it has."""
    assert len(data) == 1_000_000  # in a block of shared memory
    out = Path(tempfile.mkdtemp()) / "out"
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", "cd /proc/$$/fd && for n in *; do readlink $n; done"],
        dict(os.environ),
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, str(out), os.O_WRONLY | os.O_CREAT, 0o600)],
    )
    os.waitpid(pid, 0)
    return out.read_text()


def test_programs_of_a_task_get_no_descriptors_of_its_process(client: Client) -> None:
    text = client.submit(inherited, bytes(1_000_000)).result(60)
    assert "out" in text
    assert "socket" not in text
    assert "memfd" not in text
