"""The processes of a storm: a scheduler, agents and clients, each started again when it has died, as a system would."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import psutil

from tests.support.processes import REPOSITORY, alive, fork_server_of

MARKER = "STORM"
"""The environment variable by which each process of a storm can be found, whoever has started it."""
LIFE = "STORM_LIFE"
"""The environment variable that names the life of a member, so that tasks can say which agent has run them."""
END_SECONDS = 40.0


class Member:
    """One process that a user would start, and its successors."""

    def __init__(self, kind: str, name: str, command: Sequence[str], folder: Path, marker: str) -> None:
        self.kind = kind
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self._environment = {
            **os.environ,
            MARKER: marker,
            "TMPDIR": str(folder / "tmp"),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(REPOSITORY),
        }
        self.start()

    def start(self) -> None:
        self._was_told_enough = False
        self.life = uuid.uuid4().hex[:12]
        self.since = time.monotonic()
        self._log_begins = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE if self.kind == "client" else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=REPOSITORY,
                env={**self._environment, LIFE: self.life},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def output(self) -> str:
        """What the present process has printed."""
        with self.log.open() as log:
            log.seek(self._log_begins)
            return log.read()

    def fork_server(self) -> psutil.Process | None:
        return fork_server_of(self.pid)

    def processors(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            if server := self.fork_server():
                return server.children()
        return []

    def memory_bytes(self) -> int:
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(self.pid).memory_info().rss)
        return 0

    def n_descriptors(self) -> int:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.pid).num_fds()
        return 0

    def say_enough(self) -> None:
        """Tell a client that it need not go on with its work for the sake of more faults."""
        stdin: IO[bytes] | None = self.process.stdin
        if stdin is not None and not stdin.closed and not self._was_told_enough:
            self._was_told_enough = True
            with contextlib.suppress(BrokenPipeError):
                stdin.write(b"enough\n")
                stdin.flush()

    def calm(self) -> None:
        """Tell a client that the faults are over."""
        stdin: IO[bytes] | None = self.process.stdin
        if stdin is not None and not stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()

    def terminate(self) -> int | None:
        """End it as a user does. Returns the exit code; None if it did not end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, signal.SIGTERM)
        try:
            return self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return None


class Members:
    """All members of a storm, by name."""

    def __init__(self, folder: Path, marker: str) -> None:
        self.folder = folder
        self.marker = marker
        self._all: dict[str, Member] = {}
        (folder / "tmp").mkdir(parents=True)

    def add(self, kind: str, name: str, command: Sequence[str]) -> Member:
        member = Member(kind, name, command, self.folder, self.marker)
        self._all[name] = member
        return member

    def of(self, kind: str) -> list[Member]:
        return [each for each in self._all.values() if each.kind == kind]

    def __getitem__(self, name: str) -> Member:
        return self._all[name]

    @property
    def scheduler(self) -> Member:
        return self._all["scheduler"]

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not within {seconds:g} s: {what}; the logs are in {self.folder}")
            time.sleep(0.02)

    def close(self) -> None:
        """Kill whatever is left."""
        for pid in marked(self.marker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for each in self._all.values():
            each.process.wait()
            each.calm()


def marked(marker: str) -> list[int]:
    """Return the ids of all living processes of a storm but this one."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(folder.name)
            if wanted in (folder / "environ").read_bytes().split(b"\0") and alive(pid):
                found.append(pid)
    return found


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]
