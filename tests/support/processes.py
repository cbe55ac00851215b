"""Real processes for tests: start commands, wait for their visible effects, and find what they left behind."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.support.keys import OPEN
from tests.support.listeners import NOTES, check, listeners, listening

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05
"""How often the listeners of a program are checked."""


def wait_until(
    condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS, pause_seconds: float = 0.01
) -> Any:
    """Return the first true value of `condition`. Raises `AssertionError` after `seconds`, with the last value."""
    deadline = time.monotonic() + seconds
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; last seen: {seen!r}")
        time.sleep(pause_seconds)


def free_address() -> str:
    """Return a loopback address whose port no other socket gets as long as this process lives.

    A socket is bound there, and never listens. A server that asks for this port gets it, by SO_REUSEADDR.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    probe.detach()  # the system closes it when the process ends
    return address


def alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def descendants(pid: int | None = None) -> list[int]:
    """Return the ids of all living processes below `pid` (default: below this one)."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True) if alive(child.pid)]
    except psutil.NoSuchProcess:
        return []


def marked(mark: str) -> list[int]:
    """Return the ids of all living processes with this value of the environment variable `MARK`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("MARK") == mark:
                found.append(process.pid)
    return found


def fork_server_of(agent: int) -> psutil.Process | None:
    """Return the fork server of an agent, or None. The first one is a fork of the agent, later ones are programs."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(agent)
        for child in process.children():
            with contextlib.suppress(psutil.Error):  # it has just ended
                if child.cmdline() == process.cmdline() or "fork_server" in " ".join(child.cmdline()):
                    return child
    return None


def children() -> set[int]:
    """Return the ids of the living child processes of this process: schedulers and agents."""
    return {child.pid for child in psutil.Process().children() if alive(child.pid)}


def fork_servers() -> list[psutil.Process]:
    """Return the fork servers that this process has started, without its other children."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "fork_server" in " ".join(child.cmdline()):
                found.append(child)
    return found


UNTIL_WE_END = ("setpriv", "--pdeathsig", "TERM") if sys.platform == "linux" and shutil.which("setpriv") else ()
"""Prefix of a command that ends it with the thread that started it, so that a killed test run leaves no process."""
JAVASCRIPT = REPOSITORY / "examples" / "javascript"


class Command:
    """A running command of Scaler, or a program in JavaScript, with its output, as a user runs it."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        env: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.lines: list[str] = []
        self.module = module
        self._may_be_open = OPEN in arguments or bool(prefix)
        """whether it may listen without keys, or where its listeners cannot be seen"""
        is_javascript = module.endswith(".js")
        program = (
            ["node", str(JAVASCRIPT / module)] if is_javascript else [sys.executable, "-m", f"scaler.cli.{module}"]
        )
        is_main = threading.current_thread() is threading.main_thread()
        self.process = subprocess.Popen(
            [*(UNTIL_WE_END if is_main else ()), *prefix, *program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            **options,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str) -> str:
        """Return the first line with `text` in it."""

        def line() -> str | None:
            found = next((line for line in list(self.lines) if text in line), None)
            if found is None and self.process.poll() is not None:
                self._reader.join(5)
                found = next((line for line in self.lines if text in line), None)
                assert found is not None, f"the command ended without {text!r}:\n{self.output}"
            return found

        return str(wait_until(line, f"{text!r} in the output; it is:\n{self.output}"))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(5)
        return code

    def kill_all(self) -> None:
        """Kill the command and all its descendants. Fail the test if one of them listens without keys."""
        pids = [*descendants(self.pid), self.pid]
        listening = {} if self._may_be_open or self.process.poll() is not None else listeners(pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        check(listening, f"the command {self.module}")


@contextlib.contextmanager
def command(module: str, *arguments: str, **options: Any) -> Iterator[Command]:
    """Run a command for the length of a `with` block, and kill all its processes at the end."""
    running = Command(module, *arguments, **options)
    try:
        yield running
    finally:
        running.kill_all()


@contextlib.contextmanager
def scheduler(address: str | None = None, *arguments: str) -> Iterator[tuple[str, Command]]:
    """Run a scheduler for the length of a `with` block. Yield its address and its command."""
    address = address or free_address()
    with command("scheduler", address, *arguments) as running:
        running.wait_for("address tcp" if address.startswith("tcp") else "address ipc")
        yield address, running


class Done(subprocess.CompletedProcess[str]):
    """A program that has ended; `listened` has the mechanism that each of its listening addresses required."""

    def __init__(self, command: list[str], code: int, output: str, errors: str, listened: dict[str, str]) -> None:
        super().__init__(command, code, output, errors)
        self.listened = listened


def run_python(*arguments: str | Path, folder: Path, text: str = "", seconds: float = 100, **variables: str) -> Done:
    """Run Python in a user's folder, as if scaler was installed. Fail the test if it listens without keys.

    Args:
        text: its standard input.
        variables: environment variables in addition to those of the tests.
    """
    command = [sys.executable, *map(str, arguments)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    known = listening()
    with tempfile.NamedTemporaryFile("r") as notes:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), NOTES: notes.name, **variables}
        with subprocess.Popen(command, text=True, cwd=folder, env=environment, **streams) as program:
            output, errors, found = _communicate(program, text, seconds, known)
        found |= {address: mechanism for address, _, mechanism in (line.rstrip("\n").partition(" ") for line in notes)}
    check(found, "the program")
    return Done(command, program.returncode, output, errors, found)


def _communicate(
    program: subprocess.Popen[str], text: str, seconds: float, known: dict[str, int]
) -> tuple[str, str, dict[str, str]]:
    """Return the output and the errors of a program, and the mechanisms of its listeners, which are not in `known`."""
    found, said, deadline = dict[str, str](), text, time.monotonic() + seconds
    while True:
        try:
            return *program.communicate(said, timeout=LOOK_SECONDS), found
        except subprocess.TimeoutExpired:
            said = None
            new = {inode: port for inode, port in listening().items() if inode not in known}
            known |= new
            found |= listeners([*descendants(program.pid), program.pid], new) if new else {}
            if time.monotonic() > deadline:
                program.kill()
                raise


def run_script(text: str, *arguments: str, seconds: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=REPOSITORY,
        **options,
    )


SLOW_START = re.compile(r"^(1 task waits|[0-9,]+ tasks wait): .*\n|^tasks are progressing again\n", re.MULTILINE)


def called(main: Callable[[list[str]], None], *arguments: str) -> tuple[int, str]:
    """Call the main function of a command in this process. Return its exit code and its output."""
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main([*arguments])
        except SystemExit as end:  # as Python does: a text is an error
            code = 1 if isinstance(end.code, str) else end.code or 0
            if isinstance(end.code, str):
                print(end.code)
    return code, said.getvalue()


def complaints(errors: str) -> str:
    """Return the errors of a program, except that its tasks wait for workers, which start late on a busy machine."""
    return SLOW_START.sub("", errors)


def without_streams(*command: str, closed: str = "<&- >&- 2>&-", **options: Any) -> subprocess.Popen[bytes]:
    """Start a command with closed standard streams, as shells and old recipes for daemons do."""
    return subprocess.Popen(["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command], cwd=REPOSITORY, **options)


def open_descriptors() -> int:
    """Return the number of open descriptors of this process, after a garbage collection."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def open_files() -> int:
    """Return the number of open files and shared memory, without sockets, which other tests open and close."""
    gc.collect()
    return sum(1 for each in Path("/proc/self/fd").iterdir() if _leads_to_file(each))


def open_memory(folder: Path | None = None) -> set[int]:
    """Return the inodes of the open shared memory of this process, and of the open files below `folder`."""
    gc.collect()
    inodes = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            leads_to = str(each.readlink())
            if leads_to.startswith("/memfd:scaler") or (folder is not None and leads_to.startswith(f"{folder}/")):
                inodes.add(each.stat().st_ino)
    return inodes


def _leads_to_file(descriptor: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return str(descriptor.readlink()).startswith("/")
    return False


def held() -> Counter[str]:
    """Return the threads of this process, the processes below it, and the targets of its descriptors."""
    threads = (f"thread {each.name} {each.native_id}" for each in threading.enumerate())
    links = []
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing
            links.append(f"descriptor of {str(descriptor.readlink()).removesuffix(' (deleted)')}")
    return Counter([*threads, *(f"process {pid}" for pid in descendants()), *links])


def wait_for_nothing_new(before: Counter[str], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until this process holds only what it held `before` (see `held`); else raise `AssertionError`."""
    with contextlib.suppress(AssertionError):
        wait_until(lambda: held() <= before, "nothing new", seconds)
    left = held() - before
    lines = names([int(each.split()[1]) for each in left if each.startswith("process ")])
    assert not left, f"left behind: {sorted(left.elements())} {lines}"


def names(processes: Sequence[int]) -> list[str]:
    shown = []
    for pid in processes:
        with contextlib.suppress(psutil.Error):
            shown.append(f"{pid} {' '.join(psutil.Process(pid).cmdline())[:100]}")
    return shown
