"""ChildProcess: starts a child process, sends its settings, waits until it is ready, and ends it.

A child is a fresh interpreter that runs `scaler.cluster.child`. It never imports the program that started it, so a
script needs no `__main__` guard. The pipe through which the child gets its settings stays open as the lifeline: it
closes when the parent ends, and then the child ends too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from typing import Any, ClassVar

from scaler.executors.processes.pool.deaths import how_it_ended
from scaler.process import hash_seed
from scaler.process.interpreter import command, modules_line
from scaler.process.user_code.patches import check_unpatched
from scaler.settings import Settings

START_SECONDS = 30.0
"""The longest wait for the start of a child. On a loaded machine, a start takes some seconds."""

UNUSUAL_SECONDS = 5.0
"""The longest wait for the child's first line if `sys.executable` is not named like a Python interpreter."""

STOP_SECONDS = 5.0

AGENT = "scaler_cluster"

PRIVATE = "private"
"""An argument of a restarted scheduler: the scheduler removes the private folder of its socket when it ends."""


class StartError(RuntimeError):
    """A child process did not start; the message says why."""


class _Reports:
    """The lines that a child process reports: an empty line as soon as it runs Python, then lines of JSON."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._received = b""

    def next(self, seconds: float) -> bytes | None:
        """Wait for the next line and return it; None at the end of the reports.

        Raises:
            TimeoutError: if no line arrives within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while b"\n" not in self._received:
            if not select.select([self._reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError
            data = os.read(self._reading, 65536)
            if not data:
                return None
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def error(self) -> str:
        """Return the error that an ended process has reported; empty if it has reported no error."""
        error = ""
        with contextlib.suppress(TimeoutError, OSError, ValueError):
            while (line := self.next(0.0)) is not None:
                error = json.loads(line or b"{}").get("error", error)
        return error

    def close(self) -> None:
        """Close both ends of the pipe. Idempotent."""
        for descriptor in (self._reading, self.writing):
            if descriptor >= 0:
                os.close(descriptor)
        self._reading = self.writing = -1

    def close_writing(self) -> None:
        os.close(self.writing)
        self.writing = -1


class RunningProcess:
    """The process behind a `ChildProcess`. When the process dies, the keeper replaces it (`keeper.py`).

    The finalizer and the keeper hold this object, not the `ChildProcess`, so that the latter can be garbage-collected.
    """

    all: ClassVar[weakref.WeakSet[RunningProcess]] = weakref.WeakSet()

    def __init__(self, title: str) -> None:
        """Start the interpreter. Raises `StartError` if the program in `sys.executable` cannot be executed."""
        self.title = title
        self.lock = threading.RLock()
        """a reentrant lock, because a thread that holds the lock may collect garbage, and thereby end this process"""
        self.is_ending = False
        self.stop_seconds = STOP_SECONDS
        self.is_kept = False
        self.has_private_place = False
        """whether the scheduler listens in a private folder, which its last process removes"""
        self.is_over = threading.Event()
        """the event that the keeper sets when it starts no further process"""
        self._owner_pid = os.getpid()
        self.reports = _Reports()
        try:
            self.process = self._start()
        except OSError as error:
            self.reports.close()
            raise StartError(_about_program(title, f"cannot be executed: {error.strerror}")) from error
        RunningProcess.all.add(self)

    @property
    def is_of_parent(self) -> bool:
        """Whether this object is a copy in a forked process, which must not touch the child."""
        return os.getpid() != self._owner_pid

    def leave_to_parent(self) -> None:
        """Close this forked process's copy of the lifeline, which would let the child outlive its parent."""
        self._hang_up()

    def restart(self, settings: str) -> None:
        """Start a new process in place of a process that has died. The caller holds the lock."""
        self._hang_up()
        self.reports = _Reports()
        self.process = self._start(*[PRIVATE] * self.has_private_place)
        self.configure(settings)
        if self.is_ending:  # a garbage collection has collected its owner
            self.end()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        report = self.reports.writing
        # A session of its own: Ctrl-C in the terminal is for the parent, which ends its children in order.
        process = subprocess.Popen(  # noqa: S603 - this interpreter and our own program
            command("scaler.cluster.child", self.title, str(report), *words, reports=True),
            bufsize=0,
            stdin=subprocess.PIPE,
            pass_fds=(report,),
            env=hash_seed.environment() if self.title == AGENT else None,
            start_new_session=True,
        )
        self.reports.close_writing()
        _write(process, modules_line())
        return process

    def wait_for_python(self) -> None:
        """Wait until the child runs Python. Raises `StartError` if the child ends before that, or takes too long."""
        try:
            if self.reports.next(START_SECONDS if _has_usual_name() else UNUSUAL_SECONDS) is not None:
                return
            how = f"ended with {how_it_ended(self.process.wait(STOP_SECONDS))} and did not run Python"
        except (TimeoutError, subprocess.TimeoutExpired):
            how = "did not run Python in time"
        self.kill()
        raise StartError(_about_program(self.title, how))

    def configure(self, settings: str) -> None:
        """Write settings to the standard input of the process. Does not fail if the process is dead."""
        data = settings.encode()
        _write(self.process, b"%d\n%b" % (len(data), data))

    def terminate(self) -> None:
        """Ask the process to end in order. The keeper does not restart it."""
        if self.is_of_parent:
            return
        with self.lock:
            self.is_ending = True
            self.process.terminate()

    def kill(self) -> None:
        """Kill the process. The keeper does not restart it."""
        if self.is_of_parent:
            return
        with self.lock:
            self.is_ending = True
            self.process.kill()

    def end(self) -> None:
        """End the process in order; kill it if it still runs after `stop_seconds`. Idempotent."""
        if self.is_of_parent:  # a wait may deadlock: a thread of the parent may have held the lock of `process`
            return
        self.terminate()
        try:
            self.process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._hang_up()

    def wait(self, timeout: float | None) -> bool:
        """Wait at most `timeout` seconds until the process has ended for good. Return whether it has ended."""
        if self.is_kept and not self.is_over.wait(timeout):
            return False
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        self._hang_up()
        return True

    def _hang_up(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.reports.close()


def _has_usual_name() -> bool:
    name = os.path.basename(sys.executable or "").lower()  # noqa: PTH119 - it may be no path
    return "python" in name or "pypy" in name


def _about_program(title: str, how: str) -> str:
    return (
        f"the {title} cannot start: the program in sys.executable, {sys.executable!r}, {how}; set sys.executable to "
        "the path of a Python interpreter that has scaler, before the first client"
    )


def _write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    left = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while left:
            left = left[process.stdin.write(left) :]


class ChildProcess:
    """One child process. Its interpreter can start (`launch`) before its settings are known (`configure`)."""

    def __init__(self, title: str) -> None:
        check_unpatched()
        self._title = title
        self._running: RunningProcess | None = None

    def __repr__(self) -> str:
        state = "not started" if self.pid is None else f"process {self.pid}{'' if self.is_alive() else ', ended'}"
        return f"<{type(self).__name__}: {state}>"

    def launch(self) -> None:
        """Start the interpreter, which imports its modules and waits for its settings.

        Raises:
            StartError: if this child was started before, or `sys.executable` is not a Python interpreter.
        """
        if self._running is not None:
            raise StartError(f"this {self._title} was already started; create a new one")
        if not sys.executable:
            raise StartError(_about_program(self._title, "is not set, as in a program that embeds Python"))
        if getattr(sys, "frozen", False) and not _has_usual_name():  # it would start this program itself
            raise StartError(_about_program(self._title, "is this frozen program, not a Python interpreter"))
        self._running = RunningProcess(self._title)
        self._finalizer = weakref.finalize(self, RunningProcess.end, self._running)

    def configure(self, settings: Settings) -> None:
        """Send the child its settings. Raises `StartError` if `sys.executable` is not a Python interpreter."""
        assert self._running is not None
        self._running.wait_for_python()
        self._running.configure(settings.to_json())

    def wait_ready(self) -> Any:
        """Wait until the child is ready, and return its report. Raises `StartError`, with the child's error if any."""
        assert self._running is not None
        try:
            line = self._running.reports.next(START_SECONDS)
        except TimeoutError:
            line = json.dumps({"error": f"the {self._title} did not start within {START_SECONDS:g} s"}).encode()
        report: dict[str, Any] = json.loads(line or b"{}")
        if "ready" in report:
            return report["ready"]
        self.terminate()
        self.join(STOP_SECONDS)
        if report:
            raise StartError(report["error"])
        raise StartError(f"the {self._title} ended while starting, with exit code {self.exitcode}; its log says why")

    # As in `multiprocessing.Process`

    def terminate(self) -> None:
        """Ask the process to end in order (SIGTERM)."""
        if self._running is not None:
            self._running.terminate()

    def kill(self) -> None:
        """Kill the process (SIGKILL), so that it cannot end its sessions in order. The keeper does not restart it."""
        if self._running is not None:
            self._running.kill()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended, at most `timeout` seconds."""
        if self._running is not None and self._running.wait(timeout):
            self._close()

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._running is not None and self._running.process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""
        return None if self._running is None else self._running.process.pid

    @property
    def exitcode(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return None if self._running is None else self._running.process.poll()

    def shutdown(self) -> None:
        """End the process in order; kill it if it still runs after some seconds. Idempotent."""
        if self._running is not None:
            self._running.end()
            self._close()

    def _close(self) -> None:
        self._finalizer.detach()


def _leave_all_to_parent() -> None:
    for running in list(RunningProcess.all):
        running.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)
