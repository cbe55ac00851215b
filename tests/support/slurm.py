"""A real Slurm of one node, which is this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import free_address, wait_until

BIN = Path(sys.executable).parent

SLURM = """\
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
NodeName=localhost NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES State=UP
"""


def port() -> str:
    return free_address().rpartition(":")[2]


def jobs(environment: dict[str, str], *options: str) -> str:
    command = ["squeue", "--noheader", "--format=%i %T", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()


@contextlib.contextmanager
def slurm_in(folder: Path) -> Iterator[dict[str, str]]:
    """Start a Slurm with one core for jobs. Yield the environment with which its commands find it."""
    if os.getuid() != 0 or not all(map(shutil.which, ("munged", "slurmctld", "slurmd", "sbatch"))):
        pytest.skip("this needs root, and munge and slurm-wlm to be installed")
    (folder / "slurm.conf").write_text(SLURM.format(folder=folder, ports=(port(), port())))
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    names = {"socket": "socket", "key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
    places = [f"--{option}={folder}/munge.{name}" for option, name in names.items()]
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{BIN}:{os.environ['PATH']}"}
    running = []

    def start(*arguments: str) -> None:
        with (folder / arguments[0]).open("wb") as log:
            running.append(subprocess.Popen(arguments, stdout=log, stderr=log, env=environment))

    try:
        start("munged", "--force", "-F", *places)
        wait_until((folder / "munge.socket").exists, "munge listens")
        start("slurmctld", "-D")
        start("slurmd", "-D", "-N", "localhost")
        wait_until(
            lambda: b"idle" in subprocess.run(["sinfo"], env=environment, capture_output=True, check=False).stdout,
            "the node is idle",
            100,
            0.2,
        )
        yield environment
    finally:
        with contextlib.suppress(AssertionError):  # what a test that failed has left
            subprocess.run(["scancel", "--user=root", "--quiet"], env=environment, check=False)
            wait_until(lambda: not jobs(environment), "no job is left", 30, 0.2)
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(60)
